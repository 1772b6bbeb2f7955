# packer build .
#
# No image is made of a machine on which a launch of one node would fail: it is looked at by itself, without ssh, after
# everything else was installed. Name the source that builds your nodes.
build {
  sources = ["source.amazon-ebs.node"]

  provisioner "shell" {
    inline = ["preflight -q --only protobuf-works,module-shadowed,known-bad,gpu-driver-loads --dry-run -- torchrun --nproc-per-node 1 train.py"]
  }
}
