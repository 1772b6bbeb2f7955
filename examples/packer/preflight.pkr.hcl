# packer build .
#
# Packer makes no image of a machine on which a launch would fail. preflight checks the machine alone, without ssh, after
# everything else was installed. Replace the source by the one that builds your nodes.
build {
  sources = ["source.amazon-ebs.node"]

  provisioner "shell" {
    inline = ["preflight -q --only protobuf-works,module-shadowed,known-bad,gpu-driver-loads --dry-run -- torchrun --nproc-per-node 1 train.py"]
  }
}
