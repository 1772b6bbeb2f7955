package launch

import (
	"path"
	"slices"
	"strings"

	"preflight/facts"
)

// byAccelerate is how the rest of the environment reaches the nodes where accelerate
// starts deepspeed.
const byAccelerate = "accelerate, by .deepspeed_env"

// inherited is the environment that deepspeed is started with, where accelerate
// starts it: PYTHONPATH then ends with the working directory. What accelerate tells
// its own library beside that, ACCELERATE_…, is left out.
//
// Source: huggingface/accelerate 1.14, utils/launch.py, prepare_deepspeed_cmd_env
// and env_var_path_add.
func (o Options) inherited(env *facts.Env) *facts.Env {
	if o.Program != ProgramAccelerate || env == nil {
		return env
	}
	already, _ := lookup(env, "PYTHONPATH")
	paths := slices.DeleteFunc(strings.Split(already, ":"), func(entry string) bool { return entry == "" })
	changed := *env
	changed.Vars = slices.DeleteFunc(slices.Clone(env.Vars), func(s facts.Setting) bool { return s.Name == "PYTHONPATH" })
	changed.Vars = append(changed.Vars, facts.Setting{Name: "PYTHONPATH", Value: strings.Join(append(paths, path.Clean(o.WorkDir)), ":"), Source: "environment"})
	slices.SortFunc(changed.Vars, byName)
	return &changed
}

// appended is what accelerate writes to the end of .deepspeed_env before it starts
// deepspeed, which so exports it over the lines of every file: the environment, but
// for what is empty or has a character in it that accelerate takes for dangerous.
//
// Source: huggingface/accelerate 1.14, commands/launch.py, deepspeed_launcher, and
// utils/environment.py, convert_dict_to_env_variables.
func appended(env *facts.Env) []facts.Setting {
	if env == nil {
		return nil
	}
	var lines []facts.Setting
	for _, s := range env.Vars {
		if s.Value != "" && !strings.ContainsAny(s.Name+s.Value, ";\n<> ") {
			lines = append(lines, facts.Setting{Name: s.Name, Value: s.Value, Source: byAccelerate})
		}
	}
	return lines
}
