package probe

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestCollectGPU(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  facts.GPU
	}{
		{"none", []string{"/dev/null", "/dev/nvidia.txt"}, facts.GPU{Devices: []string{}}},
		{"a machine", []string{
			"/dev/nvidia10", "/dev/nvidia2", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-modeset",
			"/proc/driver/nvidia/gpus/0000:4e:00.0/information", "/proc/driver/nvidia/gpus/0000:0f:00.0/information",
		}, facts.GPU{Devices: []string{"/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia10"}, Driver: []string{"0000:0f:00.0", "0000:4e:00.0"}}},
		{"Intel's and Huawei's", []string{"/dev/accel/accel0", "/dev/accel/accel11", "/dev/accel/accel_controlD0", "/dev/davinci1", "/dev/davinci_manager"},
			facts.GPU{Devices: []string{}, Others: []string{"/dev/accel/accel0", "/dev/accel/accel11", "/dev/davinci1"}}},
		{"Windows", []string{"/dev/dxg"}, facts.GPU{Devices: []string{}, Others: []string{"/dev/dxg"}}},
		{"AMD's driver without a door", []string{"/sys/class/kfd/kfd/topology/nodes/1/properties"}, facts.GPU{Devices: []string{}}},
	}
	for _, tt := range tests {
		files := map[string]string{}
		for _, file := range tt.files {
			files[file] = "simd_count 1\n"
		}
		got, err := collectGPU(t.Context(), Options{}.write(t, files))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A driver that holds no GPU is another thing than no driver.
func TestDriverWithoutGPUs(t *testing.T) {
	o := Options{Root: t.TempDir()}
	if err := os.MkdirAll(o.at("/proc/driver/nvidia/gpus"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := collectGPU(t.Context(), o); err != nil || got.Driver == nil || len(got.Driver) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Of AMD's topology, the processors count for nothing, nor does a GPU that a
// container was not given, whose properties cannot be read.
func TestKFD(t *testing.T) {
	const nodes = "/sys/class/kfd/kfd/topology/nodes/"
	o := Options{}.write(t, map[string]string{
		"/dev/kfd":                 "",
		nodes + "0/properties":     "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\n",
		nodes + "10/properties":    "cpu_cores_count 0\nsimd_count 440\n",
		nodes + "2/properties":     "cpu_cores_count 0\nsimd_count 440\nlds_size_in_kb 64\n",
		nodes + "3/properties":     "",
		nodes + "4/mem_banks/none": "",
	})
	got, err := collectGPU(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/dev/kfd node 2", "/dev/kfd node 10"}, got.Others); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
