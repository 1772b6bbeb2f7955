// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"slices"
	"testing"
)

// These types hold the parts of Kubernetes' API that the examples use (core/v1 and batch/v1 of
// Kubernetes 1.34; kubeflow.org/v2beta1 of mpi-operator, pkg/apis/kubeflow/v2beta1/types.go). The
// tests check these parts and run the commands in them.
type (
	meta struct{ Name string }

	mount struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		SubPath   string `yaml:"subPath"`
	}
	container struct {
		Name, Image   string
		Command       []string
		MessagePolicy string  `yaml:"terminationMessagePolicy"`
		Mounts        []mount `yaml:"volumeMounts"`
		Resources     struct{ Limits map[string]int }
	}
	volume struct {
		Name      string
		ConfigMap *meta `yaml:"configMap"`
		Secret    *struct {
			Name string `yaml:"secretName"`
			Mode int    `yaml:"defaultMode"`
		}
		EmptyDir *struct {
			Medium string
			Size   string `yaml:"sizeLimit"`
		} `yaml:"emptyDir"`
	}
	pod struct {
		Spec struct {
			RestartPolicy  string      `yaml:"restartPolicy"`
			InitContainers []container `yaml:"initContainers"`
			Containers     []container
			Volumes        []volume
		}
	}
	replicas struct {
		Replicas      int
		RestartPolicy string `yaml:"restartPolicy"`
		Template      pod
	}
)

// initStep runs the init container, which alone decides whether the other containers start. It also
// checks the pod against the rules of the API server. The volumes must mount the hostfile at the
// path hostfile. given lists volumes that the manifest does not define.
func initStep(t *testing.T, p pod, hostfile string, given ...string) {
	t.Helper()
	names := map[string]bool{}
	for _, one := range p.Spec.Volumes {
		names[one.Name] = true
		sources := 0
		for _, there := range []bool{one.ConfigMap != nil, one.Secret != nil, one.EmptyDir != nil} {
			if there {
				sources++
			}
		}
		if sources != 1 {
			t.Errorf("volume %s has %d sources", one.Name, sources)
		}
	}
	for _, name := range given {
		names[name] = true
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if c.Name == "" || c.Image == "" {
			t.Errorf("a container lacks a name or an image: %+v", c)
		}
		for _, m := range c.Mounts {
			if !names[m.Name] {
				t.Errorf("container %s mounts %s, which the pod does not have", c.Name, m.Name)
			}
		}
	}
	if len(p.Spec.InitContainers) != 1 || p.Spec.InitContainers[0].MessagePolicy != "FallbackToLogsOnError" {
		t.Fatalf("there is one init container, whose end is kept: %+v", p.Spec.InitContainers)
	}
	if launch := p.Spec.Containers[0].Command; !slices.Contains(launch, "--hostfile="+hostfile) {
		t.Errorf("%q launches on other nodes than those of %s", launch, hostfile)
	}
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, hostfile)
		// env searches the PATH of the test, as the container runtime searches the PATH of the
		// image.
		if out, code := d.run(t, append([]string{"/usr/bin/env"}, p.Spec.InitContainers[0].Command...)...); code != gate.code {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, gate.code, out)
		}
	}
}

func TestKubernetesJob(t *testing.T) {
	var job struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Backoff  *int `yaml:"backoffLimit"`
			Template pod
		}
	}
	strictly(t, "kubernetes/job.yaml", &job)
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || job.Metadata.Name == "" || job.Spec.Backoff == nil {
		t.Errorf("this is no Job: %+v", job)
	}
	if policy := job.Spec.Template.Spec.RestartPolicy; policy != "Never" && policy != "OnFailure" {
		t.Errorf("a Job's pods cannot restart %q", policy)
	}
	if mode := job.Spec.Template.Spec.Volumes[1].Secret.Mode; mode != 0o400 {
		t.Errorf("the key has mode %o", mode)
	}
	hosts := job.Spec.Template.Spec.InitContainers[0].Mounts[0]
	if hosts.Name != "hosts" || hosts.SubPath != "hostfile" {
		t.Fatalf("the hostfile is not the first thing mounted: %+v", hosts)
	}
	initStep(t, job.Spec.Template, hosts.MountPath)
}

func TestMPIJob(t *testing.T) {
	var job struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Slots     int    `yaml:"slotsPerWorker"`
			Creation  string `yaml:"launcherCreationPolicy"`
			SSH       string `yaml:"sshAuthMountPath"`
			RunPolicy struct {
				Backoff *int   `yaml:"backoffLimit"`
				Clean   string `yaml:"cleanPodPolicy"`
			} `yaml:"runPolicy"`
			Replicas struct {
				Launcher replicas `yaml:"Launcher"`
				Worker   replicas `yaml:"Worker"`
			} `yaml:"mpiReplicaSpecs"`
		}
	}
	strictly(t, "kubernetes/mpijob.yaml", &job)
	spec := job.Spec
	if job.APIVersion != "kubeflow.org/v2beta1" || job.Kind != "MPIJob" || job.Metadata.Name == "" || spec.Creation != "WaitForWorkersReady" {
		t.Errorf("this is no MPIJob that waits for its workers: %+v", job)
	}
	if gpus := spec.Replicas.Worker.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; gpus != spec.Slots {
		t.Errorf("a worker has %d GPUs and %d slots", gpus, spec.Slots)
	}
	launcher := spec.Replicas.Launcher.Template
	// The operator gives these names to the volumes (mpi_job_controller.go: configVolumeName,
	// sshAuthVolume).
	initStep(t, launcher, "/etc/mpi/hostfile", "mpi-job-config", "ssh-auth")
	for _, m := range launcher.Spec.InitContainers[0].Mounts {
		if want := map[string]string{"mpi-job-config": "/etc/mpi", "ssh-auth": spec.SSH}[m.Name]; m.MountPath != want {
			t.Errorf("%s is at %s, want %s", m.Name, m.MountPath, want)
		}
	}
}
