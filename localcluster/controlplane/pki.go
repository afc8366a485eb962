// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"
)

// validity is long because nothing rotates these certificates, and the cluster is thrown away anyhow.
const validity = 10 * 365 * 24 * time.Hour

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// ensurePKI makes the keys and certificates of the cluster unless they exist. The service account key is written
// last: its presence says that the set is complete.
func ensurePKI(at layout) error {
	if _, err := os.Stat(at.pki("sa.key")); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ca, err := newAuthority(at, "ca", "muster-local-ca")
	if err != nil {
		return err
	}
	// Requests with this authority's certificates may name any user, so it must not be the one that signs users.
	frontProxyCA, err := newAuthority(at, "front-proxy-ca", "muster-local-front-proxy-ca")
	if err != nil {
		return err
	}
	serving := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), serviceIP},
	}
	return errors.Join(
		ca.issue(at, "apiserver", serving),
		ca.issue(at, "admin", client("muster-local-admin", "system:masters")),
		ca.issue(at, "kcm", client("system:kube-controller-manager")),
		frontProxyCA.issue(at, "front-proxy-client", client(frontProxyName)),
		newServiceAccountKey(at),
	)
}

func client(user string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func newAuthority(at layout, name, commonName string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	self := &authority{
		key: key,
		cert: &x509.Certificate{
			Subject:               pkix.Name{CommonName: commonName},
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			IsCA:                  true,
			BasicConstraintsValid: true,
		},
	}
	der, err := self.sign(self.cert, key)
	if err != nil {
		return nil, err
	}
	if self.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return self, writeCert(at, name, der)
}

// issue signs a certificate for a new key and writes both.
func (a *authority) issue(at layout, name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(template, key)
	if err != nil {
		return err
	}
	return errors.Join(writeKey(at, name, key), writeCert(at, name, der))
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // a clock that is set back must not break a new cluster
	template.NotAfter = time.Now().Add(validity)
	return x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
}

func newServiceAccountKey(at layout) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := writeFile(at.pki("sa.pub"), public, 0o644); err != nil {
		return err
	}
	return writeKey(at, "sa", key)
}

func writeKey(at layout, name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writeFile(at.pki(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func writeCert(at layout, name string, der []byte) error {
	return writeFile(at.pki(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}
