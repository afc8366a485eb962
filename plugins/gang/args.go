// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"muster.dev/muster/plugins/session"
)

const (
	defaultCallTimeout = 500 * time.Millisecond
	minCallTimeout     = 10 * time.Millisecond
	maxCallTimeout     = 10 * time.Second
)

// MusterArgs is what pluginConfig holds for the plugin. Every profile must hold the same.
type MusterArgs struct {
	metav1.TypeMeta `json:",inline"`
	// Server is where muster-server listens: unix:///path or host:port.
	Server string `json:"server"`
	// CallTimeout is how long the scheduling loop waits for one reply.
	CallTimeout metav1.Duration `json:"callTimeout"`
	// TLS is required with host:port.
	TLS *TLSArgs `json:"tls,omitempty"`
}

// TLSArgs names the files of mutual TLS.
type TLSArgs struct {
	CAFile   string `json:"caFile"`
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// ServerName is the name in the server's certificate, if it is not the host of server.
	ServerName string `json:"serverName,omitempty"`
}

// decodeArgs reads the arguments. Errors name the key and the value at fault.
func decodeArgs(obj runtime.Object) (*MusterArgs, error) {
	args := &MusterArgs{}
	if obj != nil {
		unknown, ok := obj.(*runtime.Unknown)
		if !ok {
			return nil, fmt.Errorf("args of plugin %s: want runtime.Unknown, got %T", Name, obj)
		}
		// JSON is YAML, so this reads whatever the configuration was written in. Strict: a misspelled key must not
		// leave a default in force.
		if err := yaml.UnmarshalStrict(unknown.Raw, args); err != nil {
			return nil, fmt.Errorf("args of plugin %s: %w", Name, err)
		}
	}
	if args.CallTimeout.Duration == 0 {
		args.CallTimeout.Duration = defaultCallTimeout
	}
	if err := args.validate(); err != nil {
		return nil, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	return args, nil
}

func (a *MusterArgs) validate() error {
	if t := a.CallTimeout.Duration; t < minCallTimeout || t > maxCallTimeout {
		return fmt.Errorf("callTimeout: %q is not within %s and %s", t, minCallTimeout, maxCallTimeout)
	}
	return a.sessionConfig().Validate()
}

func (a *MusterArgs) sessionConfig() session.Config {
	config := session.Config{Server: a.Server}
	if a.TLS != nil {
		config.TLS = &session.TLS{CAFile: a.TLS.CAFile, CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile, ServerName: a.TLS.ServerName}
	}
	return config
}
