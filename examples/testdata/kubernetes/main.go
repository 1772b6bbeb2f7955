// Command kubernetes reads manifests as Kubernetes and Kubeflow's MPI operator read them:
//
//	go run . FILE…
//
// It has the types of their API and the operator's own validation, refuses what the API
// server refuses of a client that asks for strict field validation, and says what is
// wrong. It is a module of its own, so that nothing of theirs comes with preflight. It
// does not know what the API server demands beyond its types.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/validation"
	batch "k8s.io/api/batch/v1"
	strict "sigs.k8s.io/json"
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

// admit holds one manifest, a Job or an MPIJob, against its type.
func admit(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	manifest, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	var kind struct{ APIVersion, Kind string }
	if err := json.Unmarshal(manifest, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "batch/v1 Job":
		return into(manifest, &batch.Job{})
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

// into is as strict as the API server: unknown keys, keys in another case and keys twice
// are errors.
func into(manifest []byte, object any) error {
	strictly, err := strict.UnmarshalStrict(manifest, object)
	return errors.Join(append(strictly, err)...)
}
