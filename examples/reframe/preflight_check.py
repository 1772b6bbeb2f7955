# SPDX-License-Identifier: Apache-2.0
# reframe -c preflight_check.py -r
#
# A regression test of the cluster for ReFrame (reframe-hpc 4). Run it before your benchmarks. It runs
# preflight on the machine that launches, passes if preflight passes, and records the duration of the
# run as its performance. ReFrame starts it in a new directory, so give the absolute path of the hostfile.
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class PreflightCheck(rfm.RunOnlyRegressionTest):
    descr = 'the cluster can carry a distributed launch'
    valid_systems = ['*']
    valid_prog_environs = ['*']
    local = True
    executable = 'preflight'
    executable_opts = ['-H', '/job/hostfile', '-q', '-o', 'json=run.json', '-o', '-']

    @sanity_function
    def ready(self):
        return sn.assert_found(r'^ "exit_code": 0,$', 'run.json')

    @performance_function('s')
    def seconds(self):
        return sn.extractsingle(r'"seconds": ([0-9.]+)', 'run.json', 1, float)
