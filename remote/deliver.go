// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"

	"preflight/internal/text"
)

// The dialogue with deliver.sh comes after that of inside.go, if there is one. The script's lines
// start with the marker and a verb:
//
//	shell                       the script runs
//	terminal                    it was given a terminal, and ends
//	heard                       it has read our first line: TAG [MACHINE:HASH:SIZE]…
//	lacks                       TAG is call (Calling), the agent is not here, and it ends
//	distrusted PATH: WHY        a file with the agent's name is here and is not run
//	tried DIRECTORY: WHY        it cannot use that directory
//	need OS MACHINE HOW HASH TAGS DIR
//	                            it lacks the binary of that hash, or "-" if none is
//	                            offered for its machine. We answer HASH SIZE PORTION, a
//	                            newline and SIZE bytes, packed as HOW says: gzip, cat,
//	                            none (cannot). Or HASH shared, if another node's copy has
//	                            arrived in the meantime. Or HASH brought, if the carrier has put
//	                            it, packed, into DIR (Porter). TAGS are those of other
//	                            deliveries to DIR, after a -
//	more                        it has read PORTION bytes of them, and needs the next
//	stalled                     no more bytes came for a while, and it ends
//	failed STATUS               the binary that it was sent does not start
//	none                        there is no directory left to try
//	{"hello":…}                 the shell has become our agent
//
// Nothing is sent after the bytes until the next line comes, because some head(1) read further than
// they were asked to.

// maxPlaces is a limit above the number of directories that deliver.sh tries.
const maxPlaces = 10

// portion is how many bytes of a binary are in transit at a time. The node's sshd buffers the bytes
// that the node has not unpacked yet. With every packet, sshd moves them into a larger buffer, up
// to the 2 MiB of a channel's window. If the binary were sent at once, that would be most of the
// server's work. On the other hand, each portion costs a process and a round trip. Source:
// sshbuf_allocate in sshbuf.c, CHAN_SES_WINDOW_DEFAULT in channels.h, OpenSSH 9.2.
const portion = 768 << 10

// delivery is one dialogue with deliver.sh.
type delivery struct {
	*command
	ending
	tag       string
	wrote     time.Time // when our last write began
	needs     int       // how often the script asked for the binary
	distrusts int       // how often the script distrusted a cached binary

	homes  *homes
	dir    string    // the directory for which the script last needed the binary
	copy   *sent     // the copy on its way to dir, nil for none
	left   io.Reader // the rest of the binary, nil after all of it has been sent
	looked bool      // the script has looked again for a copy that another node got

	distrusted string                                   // the first distrusted file and the reason, "" for none
	binary     func(goos, arch string) (*Binary, error) // nil if nothing is delivered
}

// bootstrap starts an agent on a connection. It closes the connection if it fails.
func (c *Client) bootstrap(ctx context.Context, client Connection, name string, trace *Trace) (*Agent, *Error) {
	began := time.Now()
	dog := watch(ctx, client)
	defer dog.dismiss()
	d := &delivery{ending: ending{host: name, entrance: c.entrance(name)}, tag: tag(), homes: &c.homes, binary: c.options.Binary}
	defer d.homes.enter(d.tag)()
	line, input := d.commandFor(deliverCommand, deliverInside)
	trace.Inside = d.words
	running, failure := run(client, name, line)
	if failure != nil {
		if late := d.overdue(ctx, dog, d.tag, began); late != nil {
			failure = late
		}
		return nil, failure
	}
	d.command, d.runs = running, true
	if running.process.Running {
		d.spoke, d.acknowledged, d.binary, d.wrote = true, true, nil, began
	} else {
		d.write(input + d.tag + " " + c.offer() + "\n")
	}
	hello, err := d.dialogue(ctx)
	trace.Noise = d.stdout.noise.kept()
	if err == nil {
		agent := d.agent(hello, c.options)
		if dog.dismiss() {
			trace.Path, trace.Delivered, trace.Started = hello.Path, d.pushed, time.Since(began)
			if d.pushed {
				trace.Distrusted = d.distrusted
			}
			return agent, nil
		}
		agent.Close()
		return nil, d.fail(StageStart, Frozen, map[string]string{"after": text.Duration(time.Since(began).Seconds())}, errors.New("the agent's first message came too late"))
	}
	if errors.As(err, &failure) {
		client.Close()
		return nil, failure
	}
	d.exit = d.collectExit(err)
	d.noise = d.stdout.noise.kept()
	if late := d.overdue(ctx, dog, d.tag, began); late != nil {
		return nil, late
	}
	return nil, d.explain()
}

// tag returns a name that no other delivery has on any node that shares the home directory.
func tag() string {
	var random [8]byte
	rand.Read(random[:]) // never fails, by its documentation
	return hex.EncodeToString(random[:])
}

// Write sends part of the launching machine's side of the dialogue. On a busy machine it may return
// long after the node has received that part.
func (d *delivery) Write(piece []byte) (int, error) {
	d.wrote = time.Now()
	return d.stdin.Write(piece)
}

// write sends text. If that fails, the next read returns the failure with its reason.
func (d *delivery) write(text string) { _, _ = io.WriteString(d, text) }

// dialogue answers the script until the agent says hello. The error is an *Error if the failure is
// already known. Otherwise it is the reason why reading ended.
func (d *delivery) dialogue(ctx context.Context) (Hello, error) {
	defer d.arrived(false)
	for {
		line, err := d.stdout.next()
		if err != nil {
			return Hello{}, err
		}
		verb, rest, _ := strings.Cut(string(line), " ")
		if verb == "more" && d.left != nil {
			d.sendOn()
			continue
		}
		d.arrived(strings.HasPrefix(verb, "{"))
		switch {
		case verb == "shell", verb == "enters", verb == "absent":
			d.spoke = true
			d.handleLine(verb)
		case verb == "terminal":
			return Hello{}, d.fail(d.stage(), GivenTerminal, nil, errors.New("preflight's command was given a terminal, which changes the bytes that pass through it"))
		case verb == "heard":
			d.acknowledged = true
		case verb == "distrusted" && d.distrusts < 2*maxPlaces:
			d.distrusts++
			d.distrusted = cmp.Or(d.distrusted, text.Escape(rest[:min(len(rest), maxTail)]))
		case verb == "tried" && len(d.tried) < maxPlaces:
			d.tried = append(d.tried, text.Escape(rest))
		case verb == "need" && d.needs < maxPlaces && d.binary != nil:
			d.needs++
			if err := d.supply(ctx, strings.SplitN(rest, " ", 6)); err != nil {
				return Hello{}, err
			}
		case verb == "stalled":
			return Hello{}, d.fail(StageDeliver, ConnectionLost, nil, errors.New("the transfer of the agent stopped for 12 s: the connection is cut, or too slow for so many nodes at once"))
		case verb == "failed":
			d.failed = rest
		case verb == "none":
			d.none = true
		case strings.HasPrefix(verb, "{"):
			return d.greeted(line)
		default:
			return Hello{}, d.garbage(line)
		}
	}
}

// arrived records that the copy on its way, if any, has ended. Any line that the node sends after a
// copy ends the copy, but only an agent's hello means that the copy was installed.
func (d *delivery) arrived(well bool) {
	if d.copy != nil {
		d.copy.end(well)
		d.copy = nil
	}
}

// supply sends the binary that a node needs, or makes the node look for it again.
func (d *delivery) supply(ctx context.Context, need []string) error {
	if len(need) != 6 {
		return d.garbage([]byte(strings.Join(need, " ")))
	}
	system, machine, how, hash := text.Escape(need[0]), text.Escape(need[1]), need[2], need[3]
	if system != "Linux" {
		return d.fail(StageDeliver, WrongOS, map[string]string{"os": system}, fmt.Errorf("the node runs %s, and preflight supports only Linux", system))
	}
	binary, err := d.binary("linux", goarch(machine))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return d.fail(StageDeliver, Unexpected, nil, fmt.Errorf("the agent binary: %w", err))
	}
	if err != nil {
		return d.fail(StageDeliver, WrongArch, map[string]string{"arch": goarch(machine), "want": runtime.GOARCH}, err)
	}
	if binary.Hash != hash {
		return d.garbage([]byte(strings.Join(need, " ")))
	}
	if how != "gzip" && how != "cat" {
		return d.fail(StageDeliver, NoUnpacker, nil, errors.New("the node has no head(1), which preflight needs to receive the agent"))
	}
	if dir := need[5]; dir != d.dir {
		if d.dir != "" {
			d.homes.move(d.tag)
		}
		d.dir = dir
	}
	if d.brought(ctx, binary, how, need[4], need[5]) {
		d.pushed = true
		d.write(hash + " brought\n")
		return nil
	}
	d.homes.meet(d.tag, strings.Split(need[4], ","))
	if !d.looked {
		if d.copy = d.homes.awaitCopy(ctx, d.tag, hash); d.copy == nil {
			d.looked = true
			d.write(hash + " shared\n")
			return nil
		}
	}
	if err := d.send(binary, how); err != nil {
		return err
	}
	d.pushed = true
	return nil
}

// Calling returns a command that many nodes run at the same time, and the value of the variable
// that the command reads. If the agent is already on the node, it starts and calls back as line
// says. Otherwise the command reports that the agent is missing, and ends.
func Calling(binary func(goos, arch string) (*Binary, error), variable string, line []byte) (command, value string) {
	return fmt.Sprintf(`t=$%s; unset %[1]s; echo "$t" | %s`, variable, deliverCommand), fmt.Sprintf("call %s\n%s", offer(binary), line)
}

// Porter is a Connection whose carrier may have its own way to copy one file to many nodes.
type Porter interface {
	// Bring writes a new file to a path on the node, and reports whether it succeeded. The path
	// must not exist.
	Bring(ctx context.Context, path string, content []byte) bool
}

// brought makes the carrier put the packed binary on the node, and reports whether the carrier did.
// The carrier is not used for a directory to which other deliveries copy as well, according to
// their tags. Such a directory gets a single copy (share.go). dir comes from the node and is not
// trusted.
func (d *delivery) brought(ctx context.Context, b *Binary, how, tags, dir string) bool {
	porter, ok := d.client.(Porter)
	if !ok || d.words != nil || how != "gzip" || tags != "-" || !path.IsAbs(dir) || strings.ContainsFunc(dir, unicode.IsControl) {
		return false
	}
	packed, err := b.Gzip()
	if err != nil {
		return false
	}
	wait := longestWait
	if deadline, limited := ctx.Deadline(); limited {
		wait = min(wait, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return porter.Bring(ctx, path.Join(dir, "preflight-"+b.Hash+".0"), packed)
}

// send starts to write a binary in the form that the node can unpack.
func (d *delivery) send(b *Binary, how string) error {
	packed, err := b.Gzip()
	if err != nil {
		return d.fail(StageDeliver, Unexpected, nil, fmt.Errorf("the agent binary: %w", err))
	}
	var content io.Reader = bytes.NewReader(packed)
	size := int64(len(packed))
	if how == "cat" {
		size = b.Size
		if content, err = b.unpacked(); err != nil {
			return d.fail(StageDeliver, Unexpected, nil, fmt.Errorf("the agent binary: %w", err))
		}
	}
	d.left = watched{content, d.copy}
	d.write(fmt.Sprintf("%s %d %d\n", b.Hash, size, portion))
	d.sendOn()
	return nil
}

// sendOn sends the next portion. As with write, the next read returns a failure.
func (d *delivery) sendOn() {
	if _, err := io.CopyN(d, d.left, portion); err != nil {
		d.left = nil
	}
}

// greeted parses the agent's hello and verifies that the agent is the right build, because the file
// with the expected hash in its name may have been replaced.
func (d *delivery) greeted(line []byte) (Hello, error) {
	var g struct {
		Hello *Hello `json:"hello"`
	}
	if err := json.Unmarshal(line, &g); err != nil || g.Hello == nil {
		return Hello{}, d.garbage(line)
	}
	h := *g.Hello
	for _, raw := range []*string{&h.Build, &h.OS, &h.Arch, &h.Host, &h.Path} {
		*raw = text.Escape((*raw)[:min(len(*raw), maxTail)])
	}
	if d.binary == nil { // preflight did not deliver the agent
		d.hello = true
		return h, nil
	}
	if binary, err := d.binary(h.OS, h.Arch); err != nil || binary.BuildID != h.Build {
		return Hello{}, d.fail(StageStart, Unexpected, map[string]string{"path": h.Path},
			fmt.Errorf("%s is another build than preflight expects: `preflight clean` removes it", h.Path))
	}
	d.hello = true
	return h, nil
}

// offer returns the words that tell every node which binaries are available: for each machine name
// of uname, the hash and the size. If the only binary is for machines like the launching machine,
// it is offered to any node. The node then need not find out its own machine name.
func offer(binary func(goos, arch string) (*Binary, error)) string {
	var words []string
	for _, machine := range slices.Sorted(maps.Keys(machines)) {
		if found, err := binary("linux", machines[machine]); err == nil {
			words = append(words, fmt.Sprintf("%s:%s:%d", machine, found.Hash, found.Size))
		}
	}
	if own, err := binary("linux", runtime.GOARCH); err == nil && len(words) == 1 {
		return fmt.Sprintf("any:%s:%d", own.Hash, own.Size)
	}
	return strings.Join(words, " ")
}
