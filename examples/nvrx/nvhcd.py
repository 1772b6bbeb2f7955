# SPDX-License-Identifier: Apache-2.0
# The service that ft_launcher of NVRx asks before ranks meet, for who has no nvhcd of NVIDIA's:
#
#   python nvhcd.py unix:///run/nvhcd.sock /usr/local/bin/health-check
#   ft_launcher --ft-node-health-check-endpoint unix:///run/nvhcd.sock …
#
# It runs a script for every call and answers with what that said (nvidia-resiliency-ext 0.7.0,
# shared_utils/proto/nvhcd.proto). The words of the call, --group gpu and the like, are those of
# NVIDIA's own script, and are not handed on. Where the script cannot be started the call fails,
# which NVRx takes for "nothing is known" and goes on.
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from nvidia_resiliency_ext.shared_utils.proto import nvhcd_pb2, nvhcd_pb2_grpc

endpoint, script = sys.argv[1:]


class HealthCheck(nvhcd_pb2_grpc.HealthCheckServiceServicer):
    def RunHealthCheck(self, request, context):
        ran = subprocess.run([script], capture_output=True, text=True)
        return nvhcd_pb2.HealthCheckResponse(
            success=ran.returncode == 0, exit_code=ran.returncode, output=ran.stdout, error=ran.stderr)


server = grpc.server(ThreadPoolExecutor(max_workers=1))
nvhcd_pb2_grpc.add_HealthCheckServiceServicer_to_server(HealthCheck(), server)
server.add_insecure_port(endpoint)
server.start()
server.wait_for_termination()
