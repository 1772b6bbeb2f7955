// SPDX-License-Identifier: Apache-2.0

// Command kubernetes checks manifests with the types of Kubernetes and of the controllers for
// MPIJob, PyTorchJob, JobSet and LeaderWorkerSet:
//
//	go run . FILE…
//
// The command uses the API types of Kubernetes and of the controllers, and the MPI operator's own
// validation. It rejects the manifests that the API server rejects if a client asks for strict
// field validation, and prints the reason. It does not check the rules that the API server applies
// in addition to its types. The command is a separate module, so that preflight does not depend on
// the modules of Kubernetes.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/validation"
	training "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	stream "k8s.io/apimachinery/pkg/util/yaml"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	strict "sigs.k8s.io/json"
	leaderworkerset "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	code := 0
	for _, path := range os.Args[1:] {
		if err := admit(path); err != nil {
			fmt.Printf("%s: %v\n", path, err)
			code = 1
		}
	}
	os.Exit(code)
}

// admit checks every manifest in a file against the type of the manifest.
func admit(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	documents := stream.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = admitOne(document)
		}
		if err != nil {
			return err
		}
	}
}

func admitOne(document []byte) error {
	manifest, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	var kind struct{ APIVersion, Kind string }
	if err := json.Unmarshal(manifest, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Service":
		return into(manifest, &core.Service{})
	case "batch/v1 Job":
		return into(manifest, &batch.Job{})
	case "jobset.x-k8s.io/v1alpha2 JobSet":
		return into(manifest, &jobset.JobSet{})
	case "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet":
		return into(manifest, &leaderworkerset.LeaderWorkerSet{})
	case "kubeflow.org/v1 PyTorchJob":
		return into(manifest, &training.PyTorchJob{})
	case "kubeflow.org/v2beta1 MPIJob":
		var job v2beta1.MPIJob
		if err := into(manifest, &job); err != nil {
			return err
		}
		v2beta1.SetDefaults_MPIJob(&job)
		return validation.ValidateMPIJob(&job).ToAggregate()
	}
	return fmt.Errorf("there is no kind %s %s here", kind.APIVersion, kind.Kind)
}

// into decodes a manifest as strictly as the API server. Unknown keys, keys in another case and
// duplicate keys are errors.
func into(manifest []byte, object any) error {
	strictly, err := strict.UnmarshalStrict(manifest, object)
	return errors.Join(append(strictly, err)...)
}
