package facts

// SSH is how far the login got, and what was met on the way. It is filled on
// the launching machine; Cause is empty when the agent answered.
type SSH struct {
	User string `json:"user,omitempty" fact:"own"`
	Port int    `json:"port,omitempty"`
	// Via lists the jump hosts in the order they are crossed.
	Via []string `json:"via,omitempty"`

	// Stage is the step that failed: resolve, connect, greet, negotiate,
	// host-key, login, session, shell, deliver, start, talk.
	Stage string `json:"stage,omitempty" fact:"own"`
	// Cause is the failure in one word (remote.Cause), "" on success.
	Cause string `json:"cause,omitempty" fact:"own"`
	// Message is the failure in the words of the side that reported it.
	Message string `json:"message,omitempty" fact:"own"`
	// Detail holds what a cure needs: file names, fingerprints, keys offered.
	Detail map[string]string `json:"detail,omitempty" fact:"own"`
	// OpenSSH says what the system's ssh would have done where it differs
	// from what we did, because the launch uses ssh.
	OpenSSH []string `json:"openssh,omitempty" fact:"own"`

	Banner string `json:"banner,omitempty" fact:"own"` // the server's version string
	// Noise is what the login printed on stdout before our agent spoke,
	// escaped and cut; whatever parses a remote command's output gets it too.
	Noise []string `json:"noise,omitempty"`

	ConnectSeconds float64 `json:"connect_seconds,omitempty" fact:"volatile" unit:"s"` // dial to login
	StartSeconds   float64 `json:"start_seconds,omitempty" fact:"volatile" unit:"s"`   // login to the agent's hello
	Delivered      bool    `json:"delivered,omitempty" fact:"volatile"`                // the binary was pushed by this run
	Path           string  `json:"path,omitempty" fact:"own" lasting:"no"`             // where the binary lies
}
