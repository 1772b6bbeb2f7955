# terraform apply -var hostfile=/shared/hostfile
#
# Judges the nodes that a configuration has made, from the machine that runs Terraform: anew each time that the
# hostfile or one of the machines is another. Exit code 1 fails the apply, and what depends on
# terraform_data.preflight is not made; 2, "could not tell", does too. With --smoke the nodes compute and reduce as
# well.
variable "hostfile" {
  type    = string
  default = "hostfile"
}

# What the machines are known by: aws_instance.node[*].id
variable "nodes" {
  type    = list(string)
  default = []
}

resource "terraform_data" "preflight" {
  triggers_replace = [filesha256(var.hostfile), var.nodes]

  provisioner "local-exec" {
    command     = "preflight -H \"$HOSTFILE\" -q -o html=preflight.html -o -"
    environment = { HOSTFILE = var.hostfile }
  }
}
