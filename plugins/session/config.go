// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const unixPrefix = "unix://"

const (
	// A server may not make the scheduler hold more than this for one frame. An Admit of 10,000 members is about 2 MiB.
	maxReceiveBytes = 16 << 20
	// Facts are packed into frames of about this size at most: gRPC servers take 4 MiB unless told otherwise.
	maxFactsBytes = 512 << 10
	// So many facts to a frame, so that a server can answer a call between two of them. So many are not held back.
	maxFactsPerFrame = 512
	// How long a fact waits for others to share its frame. A frame costs the server several times what a fact does, and
	// a pod that is scheduled makes three facts: at this length about four share a frame. A gang whose last pod just
	// came is admitted later by so much; what may complete a quorum does not wait.
	defaultWindow = 2 * time.Millisecond
	// A queue longer than this means that the server does not keep up. Dropping it and synchronizing anew is
	// then both right and cheaper.
	defaultMaxQueue = 1 << 18

	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	// How long a connection may take to come about.
	dialTimeout = 2 * time.Second
	// How long the server may take from the opening to Welcome.
	welcomeTimeout = 30 * time.Second
	// A server that is silent for this long is asked for a sign of life and given keepaliveTimeout to answer.
	// gRPC takes no shorter interval from a client.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
	// So many calls in a row without an answer end the session: a server that hangs would otherwise cost
	// the scheduling loop, and with it pods of no gang, a call timeout each.
	maxTimeoutsInARow = 3
)

// Config says where the server is and how to reach it.
type Config struct {
	// Server is unix:///path or host:port.
	Server string
	// TLS is required for host:port and not allowed for a unix socket.
	TLS *TLS
	// MaxQueue bounds the facts and calls that wait to be sent; 0 means the default.
	MaxQueue int
	// Window is how long a fact may wait for others to share its frame; 0 means the default.
	Window time.Duration
}

// TLS names the files of mutual TLS. They are read at every dial, so renewed certificates need no restart.
type TLS struct {
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string
}

// Validate returns an error that names the key and the value at fault.
func (c Config) Validate() error {
	switch {
	case c.Server == "":
		return fmt.Errorf("server: a value is required, for example unix:///run/muster/server.sock")
	case strings.HasPrefix(c.Server, unixPrefix):
		if !filepath.IsAbs(strings.TrimPrefix(c.Server, unixPrefix)) {
			return fmt.Errorf("server: %q: the path of a unix socket must be absolute, as in unix:///run/muster/server.sock", c.Server)
		}
		if c.TLS != nil {
			return fmt.Errorf("tls: not used with the unix socket %q; remove it, file permissions guard the socket", c.Server)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(c.Server)
	if err != nil || host == "" || port == "" || strings.ContainsAny(c.Server, "/ ") {
		return fmt.Errorf("server: %q is neither unix:///path nor host:port", c.Server)
	}
	if c.TLS == nil {
		return fmt.Errorf("tls: required because server is %q; set tls.caFile, tls.certFile and tls.keyFile, or use a unix socket", c.Server)
	}
	for _, f := range []struct{ key, value string }{
		{"tls.caFile", c.TLS.CAFile}, {"tls.certFile", c.TLS.CertFile}, {"tls.keyFile", c.TLS.KeyFile},
	} {
		if f.value == "" {
			return fmt.Errorf("%s: a value is required because server is %q", f.key, c.Server)
		}
	}
	return nil
}

// dial connects. There is one connection per session, dialled here and not by gRPC: our backoff is then the only one,
// a server that is away costs one line in our log and none in gRPC's, and certificates are read again.
func (c Config) dial(ctx context.Context) (*grpc.ClientConn, error) {
	creds, err := c.credentials()
	if err != nil {
		return nil, err
	}
	network, address := "tcp", c.Server
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceiveBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		// How long the handshakes may take.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTimeout}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
	}
	if path, ok := strings.CutPrefix(c.Server, unixPrefix); ok {
		network, address = "unix", path
		options = append(options, grpc.WithAuthority("localhost"))
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	raw, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	var used atomic.Bool
	conn, err := grpc.NewClient("passthrough:///"+address, append(options,
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errors.New("the connection is used up")
			}
			return raw, nil
		}))...)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

func (c Config) credentials() (credentials.TransportCredentials, error) {
	if strings.HasPrefix(c.Server, unixPrefix) {
		return insecure.NewCredentials(), nil
	}
	if c.TLS == nil {
		return nil, fmt.Errorf("no plain text to %q", c.Server)
	}
	ca, err := os.ReadFile(c.TLS.CAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.caFile: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("tls.caFile: no certificate in %q", c.TLS.CAFile)
	}
	pair, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.certFile, tls.keyFile: %w", err)
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS13,
		RootCAs:      roots,
		Certificates: []tls.Certificate{pair},
		ServerName:   c.TLS.ServerName,
	}), nil
}
