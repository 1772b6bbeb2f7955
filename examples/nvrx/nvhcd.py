# SPDX-License-Identifier: Apache-2.0
# The service that ft_launcher of NVRx asks before the rendezvous. Use it if you do not have NVIDIA's nvhcd:
#
#   python nvhcd.py unix:///run/nvhcd.sock /usr/local/bin/health-check
#   ft_launcher --ft-node-health-check-endpoint unix:///run/nvhcd.sock …
#
# It runs the script for every call and returns its output and exit code (nvidia-resiliency-ext 0.7.0,
# shared_utils/proto/nvhcd.proto). It does not pass the arguments of the call to the script, because
# they (--group gpu, for example) are meant for NVIDIA's own script. If the script cannot be started,
# the call fails; NVRx treats this as "unknown" and continues.
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
