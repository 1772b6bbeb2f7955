// SPDX-License-Identifier: Apache-2.0

// Command kube simulates a Kubernetes API server and its kubelets. It lists the pods of a file, and
// runs on this machine the commands that `kubectl exec` starts in these pods. kubectl uses it like
// a real server, with SPDY and version 4 of the remote command protocol.
//
// It does not authenticate or schedule, and supports no objects except pods.
//
// Sources: kubernetes/apimachinery, pkg/util/remotecommand/constants.go and
// pkg/util/httpstream/spdy; kubernetes/kubelet, pkg/cri/streaming/remotecommand.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/moby/spdystream"
)

// pod holds what the server needs to know about a pod in addition to the pod's entry in the list.
type pod struct {
	Metadata struct{ Name string }
	// Stand is the behaviour of the pod: forbidden, bare, severed or dropped; "" runs commands.
	Stand string
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("kube PODS.json: serves these pods, and says where")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		log.Fatal(err)
	}
	pods := map[string]json.RawMessage{}
	for _, item := range list.Items {
		var p pod
		if err := json.Unmarshal(item, &p); err != nil {
			log.Fatal(err)
		}
		pods[p.Metadata.Name] = item
	}
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, body)
		})
	}
	answer("/version", `{"major":"1","minor":"32","gitVersion":"v1.32.0"}`)
	answer("/api", `{"kind":"APIVersions","versions":["v1"]}`)
	answer("/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	answer("/api/v1", `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"],"shortNames":["po"]},{"name":"pods/exec","namespaced":true,"kind":"PodExecOptions","verbs":["create","get"]}]}`)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":`)
		json.NewEncoder(w).Encode(list.Items)
		io.WriteString(w, "}")
	})
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{pod}", func(w http.ResponseWriter, r *http.Request) {
		if item, there := pods[r.PathValue("pod")]; there {
			w.Header().Set("Content-Type", "application/json")
			w.Write(item)
			return
		}
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("pods %q not found", r.PathValue("pod")))
	})
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{pod}/exec", func(w http.ResponseWriter, r *http.Request) {
		var p pod
		json.Unmarshal(pods[r.PathValue("pod")], &p)
		switch p.Stand {
		case "forbidden":
			refuse(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("pods %q is forbidden: User \"ann\" cannot create resource \"pods/exec\" in API group \"\" in the namespace %q", p.Metadata.Name, r.PathValue("namespace")))
		case "severed":
			refuse(w, http.StatusInternalServerError, "", "error dialing backend: dial tcp 10.0.0.9:10250: connect: no route to host")
		default:
			run(w, r, p.Stand)
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	go http.Serve(listener, mux)
	io.Copy(io.Discard, os.Stdin) // ends when the process that started this one ends
}

// refuse answers with an error in the same form as an API server.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}

// run handles one exec. If kubectl offers a websocket first, run refuses it, and kubectl uses SPDY.
func run(w http.ResponseWriter, r *http.Request, stand string) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "SPDY/3.1") {
		http.Error(w, "this server speaks SPDY/3.1 alone", http.StatusBadRequest)
		return
	}
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n")
	spdy, err := spdystream.NewConnection(ahead{conn, buffered.Reader}, true)
	if err != nil {
		return
	}
	query := r.URL.Query()
	want := 1
	for _, name := range []string{"stdin", "stdout", "stderr"} {
		if query.Get(name) == "true" {
			want++
		}
	}
	var mu sync.Mutex
	streams, all := map[string]*spdystream.Stream{}, make(chan struct{})
	go spdy.Serve(func(s *spdystream.Stream) {
		s.SendReply(http.Header{}, false)
		mu.Lock()
		defer mu.Unlock()
		if streams[s.Headers().Get("streamType")] = s; len(streams) == want {
			close(all)
		}
	})
	select {
	case <-all:
	case <-spdy.CloseChan():
		return
	}
	status := map[string]any{"status": "Success"}
	switch stand {
	case "bare":
		status = map[string]any{"status": "Failure", "reason": "InternalError", "message": `Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "0a1b": OCI runtime exec failed: exec failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown`}
	default:
		cmd := exec.Command(query["command"][0], query["command"][1:]...)
		cmd.Stdout, cmd.Stderr = streams["stdout"], streams["stderr"]
		stdin, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		if stand == "dropped" { // drop the connection after the first line, when the command has had time to start
			line, _ := bufio.NewReader(streams["stdin"]).ReadString('\n')
			io.WriteString(stdin, line)
			time.Sleep(time.Second)
			cmd.Process.Kill()
			return
		}
		go func() {
			io.Copy(stdin, streams["stdin"])
			stdin.Close()
		}()
		go func() { // as container runtimes do, close the input of remaining processes
			<-spdy.CloseChan()
			stdin.Close()
		}()
		if ended := (*exec.ExitError)(nil); errors.As(cmd.Wait(), &ended) {
			code := ended.ExitCode()
			if code < 0 {
				code = 137
			}
			status = map[string]any{"status": "Failure", "reason": "NonZeroExitCode", "message": fmt.Sprintf("command terminated with non-zero exit code: %d", code),
				"details": map[string]any{"causes": []map[string]string{{"reason": "ExitCode", "message": fmt.Sprint(code)}}}}
		}
	}
	text, _ := json.Marshal(status)
	streams["error"].Write(text)
	for _, name := range []string{"stdout", "stderr", "error"} {
		if s := streams[name]; s != nil {
			s.Close()
		}
	}
	<-spdy.CloseChan()
}

// ahead is a connection from which some bytes have already been read.
type ahead struct {
	net.Conn
	from *bufio.Reader
}

func (a ahead) Read(p []byte) (int, error) { return a.from.Read(p) }
