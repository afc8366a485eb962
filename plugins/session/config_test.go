// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"muster.dev/muster/plugins/pb"
)

func TestAConfigThatIsWrongIsRefusedByKeyAndValue(t *testing.T) {
	files := &TLS{CAFile: "ca", CertFile: "cert", KeyFile: "key"}
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"no server":            {Config{}, "server: a value is required"},
		"relative socket":      {Config{Server: "unix://run/s"}, `server: "unix://run/s": the path of a unix socket must be absolute`},
		"socket with tls":      {Config{Server: "unix:///s", TLS: files}, `tls: not used with the unix socket "unix:///s"`},
		"no port":              {Config{Server: "host", TLS: files}, `server: "host" is neither`},
		"a url":                {Config{Server: "https://host:1", TLS: files}, `server: "https://host:1" is neither`},
		"tcp without tls":      {Config{Server: "host:1"}, `tls: required because server is "host:1"`},
		"loopback without tls": {Config{Server: "127.0.0.1:1"}, `tls: required because server is "127.0.0.1:1"`},
		"no key file":          {Config{Server: "host:1", TLS: &TLS{CAFile: "ca", CertFile: "cert"}}, "tls.keyFile: a value is required"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.config.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
		})
	}
	for _, good := range []Config{{Server: "unix:///s"}, {Server: "host:1", TLS: files}} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// welcoming is a server that welcomes and then stays silent.
type welcoming struct {
	pb.UnimplementedSchedulingServer
}

func (welcoming) Session(stream pb.Scheduling_SessionServer) error {
	_ = stream.Send(&pb.ServerFrame{Body: &pb.ServerFrame_Welcome{Welcome: &pb.Welcome{Contract: 1}}})
	<-stream.Context().Done()
	return nil
}

func TestOverTCPBothSidesShowCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, caKey := certificate(t, dir, "ca", nil, nil)
	server, serverKey := certificate(t, dir, "server", ca, caKey)
	certificate(t, dir, "client", ca, caKey)
	certificate(t, dir, "stranger", nil, nil)

	roots := x509.NewCertPool()
	roots.AddCert(ca)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{server.Raw}, PrivateKey: serverKey}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: roots,
	})))
	pb.RegisterSchedulingServer(g, welcoming{})
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)

	config := func(who string) Config {
		return Config{Server: listener.Addr().String(), TLS: &TLS{
			CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, who+".crt"), KeyFile: filepath.Join(dir, who+".key"), ServerName: "muster-server",
		}}
	}
	_, r := start(t, config("client"))
	wait(t, r.ready)
	stranger, r := start(t, config("stranger"))
	select {
	case <-r.ready:
		t.Fatal("a stranger was welcomed")
	case <-time.After(300 * time.Millisecond):
	}
	if stranger.Connected() {
		t.Fatal("a stranger is connected")
	}
}

// certificate writes name.crt and name.key, signed by the parent or by itself.
func certificate(t *testing.T, dir, name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"muster-server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: raw}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}
