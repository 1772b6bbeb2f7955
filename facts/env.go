package facts

// Env is the part of the environment that changes how a launch behaves. Only
// allow-listed names are read; nothing secret is among them.
type Env struct {
	// Vars are the allow-listed variables of this session: a node's non-interactive
	// one by ssh, on the launching machine the one preflight was typed in.
	Vars []Setting `json:"vars" fact:"key=name"`
	// Withheld are names that a launcher exports by how they begin and whose values
	// are not collected: MLFLOW_TRACKING_TOKEN.
	Withheld []string `json:"withheld,omitempty" fact:"own"`
	// NCCL is the configuration NCCL will see: environment first, then
	// $NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf (NCCL 2.23+).
	NCCL []Setting `json:"nccl" fact:"key=name"`
	// Files are the NCCL configuration files that exist, in that order.
	Files []ConfFile `json:"files" fact:"key=path"`
}

// Setting is one variable and where it comes from.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source" fact:"own"` // "environment", "/etc/nccl.conf", "/root/.nccl.conf"
}

// ConfFile is one NCCL configuration file that exists.
type ConfFile struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty"` // "permission denied"
	Count int    `json:"count"`           // settings in it
}
