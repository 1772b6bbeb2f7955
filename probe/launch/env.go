// SPDX-License-Identifier: Apache-2.0

// Package launch reads what a launch on this machine starts with. That is the environment, the
// files that the launch's command line names, the files next to them, and the programs that start
// the launch. The package returns no file content except a configuration's, and only on the
// launching machine. It returns no variable that is not on its list of names.
package launch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/internal/secret"
	"preflight/probe/machine"
)

// allowedNames lists the variables that may leave the machine: those that change how a launch
// behaves. allowedPrefixes lists the name prefixes of further such variables.
var (
	allowedNames = []string{
		"AISC_JOB_NAME", "CC", "CONDA_DEFAULT_ENV", "CONDA_PREFIX",
		"CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CURL_CA_BUNDLE", "CXX",
		"DSHPATH", "ELASTIC_RUN_ID", "FANOUT", "GROUP_RANK", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HIP_VISIBLE_DEVICES", "HOST_IP",
		"KMP_AFFINITY", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
		"MASTER_ADDR", "MASTER_PORT", "MAX_JOBS", "MKL_NUM_THREADS", "MPICH_PORT_RANGE", "MPIEXEC_PORTRANGE", "MPIEXEC_PORT_RANGE", "MPIR_CVAR_CH3_PORT_RANGE", "MPIR_CVAR_PORT_RANGE", "NODE_RANK",
		"NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES",
		"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMP_NUM_THREADS", "OMP_PROC_BIND", "PATH",
		"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "RANK", "REQUESTS_CA_BUNDLE", "ROCR_VISIBLE_DEVICES",
		"SGLANG_HOST_IP", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_ID", "SLURM_JOB_NODELIST",
		"SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_NODELIST", "SLURM_NTASKS",
		"SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SSL_CERT_DIR", "SSL_CERT_FILE",
		"TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_CPP_LOG_LEVEL", "TORCH_CUDA_ARCH_LIST", "TORCH_DISTRIBUTED_DEBUG", "TORCH_EXTENSIONS_DIR",
		"TORCH_SHOW_CPP_STACKTRACES", "TRANSFORMERS_CACHE", "TRANSFORMERS_OFFLINE", "TRITON_CACHE_DIR",
		"USE_LIBUV", "VIRTUAL_ENV", "VLLM_HOST_IP", "VLLM_PORT", "WANDB_DISABLED", "WANDB_MODE", "WORLD_SIZE",
	}
	allowedPrefixes = []string{
		"ACCELERATE_", "DEEPSPEED_", "DS_", "FI_", "GLOO_", "HYDRA_", "I_MPI_", "MV2_", "NCCL_", "OMPI_MCA_",
		"PDSH_", "PET_", "PYTHON", "TORCHELASTIC_", "TORCH_DIST_", "TORCH_GLOO_", "TORCH_NCCL_", "TP_", "UCX_",
	}
	// exportedPrefixes lists the name prefixes of variables that DeepSpeed exports to every node
	// (deepspeed/launcher/runner.py, EXPORT_ENVS, and accelerator/cuda_accelerator.py).
	exportedPrefixes = []string{"MLFLOW", "MV2", "NCCL", "PYTHON", "UCX"}
)

// allowed reports whether a variable's value may be collected. A name that suggests a secret is
// never allowed.
func allowed(name string) bool {
	return !secret.Named(name) && (slices.Contains(allowedNames, name) || hasAnyPrefix(name, allowedPrefixes))
}

// hasAnyPrefix reports whether a name begins with one of the prefixes.
func hasAnyPrefix(name string, families []string) bool {
	return slices.ContainsFunc(families, func(family string) bool { return strings.HasPrefix(name, family) })
}

// CollectEnv reads the environment of this session and the settings that NCCL would add to it.
func CollectEnv(ctx context.Context, o machine.Options) (*facts.Env, error) {
	home := machine.Session(o).Home // as in NCCL, which asks for the account and does not read HOME
	if home == "" {
		return nil, errors.New("the account has no home directory, so ~/.nccl.conf cannot be found")
	}
	env := readEnv(os.Environ(), o.At, home, o.WorkDir)
	env.Topology = topologyFiles(ctx, o, env.NCCL)
	env.MPI = readMCA(o.At, home)
	env.ExportTrial = tryExports(ctx, o)
	env.Tokens = tokens(o, home)
	return env, nil
}

// readEnv sorts environ (NAME=VALUE) and adds the settings of NCCL's configuration files, which
// have lower precedence. A relative NCCL_CONF_FILE starts at workDir, where the ranks will run. at
// converts a path of the machine into a path that preflight can open.
func readEnv(environ []string, at func(string) string, home, workDir string) *facts.Env {
	env := &facts.Env{Vars: []facts.Setting{}, NCCL: []facts.Setting{}, Files: []facts.ConfFile{}}
	set := map[string]bool{}
	confFile, named := "", false
	for _, entry := range environ {
		name, value, found := strings.Cut(entry, "=")
		if !found || name == "" || set[name] {
			continue
		}
		set[name] = true
		if name == "NCCL_CONF_FILE" && value != "" {
			confFile, named = value, true
		}
		if !allowed(name) {
			if hasAnyPrefix(name, exportedPrefixes) {
				env.Withheld = append(env.Withheld, name)
			}
			continue
		}
		setting := facts.Setting{Name: name, Value: value, Source: "environment"}
		env.Vars = append(env.Vars, setting)
		if strings.HasPrefix(name, "NCCL_") {
			env.NCCL = append(env.NCCL, setting)
		}
	}

	// NCCL src/misc/param.cc (2.23 and later): a file that the environment names replaces the file
	// in the home directory. No file overrides a variable that is set.
	switch {
	case !named:
		confFile = filepath.Join(home, ".nccl.conf")
	case !filepath.IsAbs(confFile):
		confFile = filepath.Join(workDir, confFile)
	}
	for _, path := range []string{confFile, "/etc/nccl.conf"} {
		file, settings := readNCCLConf(at(path), path)
		if file == nil && named && path == confFile {
			file = &facts.ConfFile{Path: path, Error: "NCCL_CONF_FILE names it, but it does not exist"}
		}
		if file == nil {
			continue
		}
		env.Files = append(env.Files, *file)
		for _, s := range settings {
			if !set[s.Name] && allowed(s.Name) {
				env.NCCL = append(env.NCCL, s)
			}
			set[s.Name] = true
		}
	}
	byName := func(a, b facts.Setting) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(env.Vars, byName)
	slices.SortFunc(env.NCCL, byName)
	slices.Sort(env.Withheld)
	return env
}

// readMCA returns the parameters in Open MPI's configuration files, each with its effective value. A
// file that cannot be read counts as absent, as it does for Open MPI.
//
// Source: open-mpi/ompi 4.1, opal/mca/base/mca_base_var.c, mca_base_var_cache_files, and Debian's
// directory for the system's file.
func readMCA(at func(string) string, home string) (all []facts.Setting) {
	for _, path := range []string{filepath.Join(home, ".openmpi", "mca-params.conf"), "/etc/openmpi/openmpi-mca-params.conf", "/usr/local/etc/openmpi-mca-params.conf"} {
		text, err := readOrdinary(at(path), 1<<16)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			name, value, found := strings.Cut(line, "=")
			name = strings.TrimSpace(name)
			isKnown := slices.ContainsFunc(all, func(s facts.Setting) bool { return s.Name == name })
			if found && !isKnown && !strings.HasPrefix(name, "#") && allowed("OMPI_MCA_"+name) {
				all = append(all, facts.Setting{Name: name, Value: strings.TrimSpace(value), Source: path})
			}
		}
	}
	slices.SortFunc(all, func(a, b facts.Setting) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// readNCCLConf reads one configuration file. It returns nil if the file does not exist.
func readNCCLConf(real, path string) (*facts.ConfFile, []facts.Setting) {
	f, err := os.Open(real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return &facts.ConfFile{Path: path, Error: machine.Reason(err)}, nil
	}
	defer f.Close()
	settings, err := parseNCCLConf(f, path)
	file := &facts.ConfFile{Path: path, Count: len(settings)}
	if err != nil {
		file.Error = machine.Reason(err)
	}
	return file, settings
}

// ncclValueLimit is the length to which NCCL truncates each name and value in its configuration
// files.
const ncclValueLimit = 1023

// parseNCCLConf parses NAME=VALUE lines as NCCL's setEnvFile does. A '#' starts a comment only in
// the first column. Nothing is trimmed or unquoted, and lines without '=' are ignored. If a name is
// set twice, the result has it once with its first value, because NCCL never overwrites a value.
func parseNCCLConf(r io.Reader, source string) ([]facts.Setting, error) {
	var settings []facts.Setting
	seen := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(r, 1<<20))
	for lines.Scan() { // Scan drops a trailing CR, as recent NCCL does
		name, value, found := strings.Cut(lines.Text(), "=")
		if !found || name == "" || name[0] == '#' {
			continue
		}
		name, value = name[:min(len(name), ncclValueLimit)], value[:min(len(value), ncclValueLimit)]
		if !seen[name] {
			settings = append(settings, facts.Setting{Name: name, Value: value, Source: source})
		}
		seen[name] = true
	}
	return settings, lines.Err()
}
