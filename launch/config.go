package launch

// Config is what a DeepSpeed configuration means for the launch. Numbers are nil
// where it does not say, or says "auto".
type Config struct {
	Path string `json:"path"`
	// Problems end the launch or the training, in DeepSpeed's own order.
	Problems     []ConfigProblem `json:"problems,omitempty"`
	TrainBatch   *int            `json:"train_batch_size,omitempty"`
	MicroBatch   *int            `json:"train_micro_batch_size_per_gpu,omitempty"`
	Accumulation *int            `json:"gradient_accumulation_steps,omitempty"`
	ZeroStage    int             `json:"zero_stage"`
	// Offload are the places that ZeRO moves states to.
	Offload []Offload `json:"offload,omitempty"`
	// Ops are the extensions that DeepSpeed compiles for it on first use, by
	// DeepSpeed's names: cpu_adam, fused_adam, async_io.
	Ops []string `json:"ops,omitempty"`
}

// Offload is one place of ZeRO-Offload or ZeRO-Infinity.
type Offload struct {
	What   string `json:"what"`           // optimizer or param
	Device string `json:"device"`         // cpu or nvme
	Path   string `json:"path,omitempty"` // of nvme, absolute
}

// ConfigProblem is something in a DeepSpeed configuration that will not do what
// it seems to.
type ConfigProblem struct {
	Key     string `json:"key"`   // "zero_optimization.stage", "" for the file as a whole
	Fatal   bool   `json:"fatal"` // training ends on it; otherwise it is silently ignored
	Message string `json:"message"`
	Said    string `json:"said,omitempty"` // what DeepSpeed itself would say
}

// ReadConfig reads a DeepSpeed configuration as the given release does.
func ReadConfig(path, text, deepspeed string, worldSize int) *Config {
	return nil
}
