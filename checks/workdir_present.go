package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
)

var workdirPresent = Check{
	ID:       "workdir-present",
	Title:    "the directory that the launch is typed in is on every node, and can be entered",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionFiles},
	Doc: "Every node is told to change to the directory that the launch is typed in, by its absolute path. DeepSpeed joins that to the command with a " +
		"semicolon: where the directory is missing the shell complains, and python starts in the home directory all the same. A script that is named by a " +
		"relative path is not found there, and the other nodes wait for its ranks; one that is named by an absolute path runs, and what it opens by a " +
		"relative path is looked for in the home directory.",
	WouldSee: "bash: line 1: cd: …: No such file or directory",
	Run:      judgeWorkDir,
}

func judgeWorkDir(view View) []Finding {
	p := view.Launch
	switch {
	case p.WorkDir == "":
		return skip("nothing says which directory the launch is typed in")
	case p.Local:
		return skip("the ranks start on the launching machine, in the directory that the launch is typed in")
	case p.Torchrun() && p.Script == "":
		return skip("torchrun is typed on every node, in whichever directory the user is")
	}
	var findings []Finding
	var lacking []*facts.Node
	for _, node := range view.Nodes {
		switch dir := node.Files.WorkDir; {
		case !dir.Exists:
			lacking = append(lacking, node)
		case dir.Problem != "":
			findings = append(findings, notEntered(view, node))
		}
	}
	return append(lackWorkDir(view, lacking), findings...)
}

// lackWorkDir is nodes without the directory. Where no node has it and nobody
// said what is to run, the user may have been elsewhere than the launch will be.
func lackWorkDir(view View, lacking []*facts.Node) []Finding {
	dir := view.Launch.WorkDir
	nowhere := len(lacking) == len(view.Nodes) && len(lacking) > 0
	var findings []Finding
	for _, node := range lacking {
		f := Finding{
			Verdict:  workDirVerdict(view.Launch),
			Nodes:    []string{node.Name},
			Summary:  "there is no " + dir,
			Got:      node.Files.WorkDir.Problem,
			Want:     "the directory that the launch is typed in",
			WouldSee: workDirError(view.Launch, node, "No such file or directory"),
			Remedy:   bringWorkDir(view),
		}
		if nowhere {
			f.Summary = dir + ", where the launch is typed, is on no node"
			f.Want = "a directory that every node has at the same path"
			if view.Launch.Script == "" {
				f.Verdict = Warn
				f.Remedy = append([]fix.Command{fix.Here("cd …   # to where the launch will be typed, and run preflight from there")}, f.Remedy...)
			}
		}
		findings = append(findings, f)
	}
	return findings
}

func notEntered(view View, node *facts.Node) Finding {
	dir, why := view.Launch.WorkDir, node.Files.WorkDir.Problem
	said := "Permission denied"
	if why == "is a file" {
		said = "Not a directory"
	}
	return Finding{
		Verdict:  workDirVerdict(view.Launch),
		Nodes:    []string{node.Name},
		Summary:  dir + " cannot be entered",
		Got:      why,
		Want:     "a directory that the user who launches may enter",
		WouldSee: workDirError(view.Launch, node, said),
		Remedy:   []fix.Command{fix.On("namei -l %s", fix.Path(dir))},
	}
}
