# terraform apply -var hostfile=/shared/hostfile
#
# Checks the nodes that a configuration has created, from the machine that runs Terraform. It runs again when the
# hostfile or one of the machines changes. The apply fails if a check fails (exit code 1) or if something is unknown
# (2); then Terraform does not create what depends on terraform_data.preflight. Add --smoke to run compute and all-reduce too.
variable "hostfile" {
  type    = string
  default = "hostfile"
}

# The IDs of the machines: aws_instance.node[*].id
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
