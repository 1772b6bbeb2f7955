// SPDX-License-Identifier: Apache-2.0

package hostsys

import "syscall"

func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
