// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxSocketPath is the longest path of a unix socket that every Unix takes (104 bytes with the final NUL on some).
const maxSocketPath = 103

// layout names the files below the cluster's directory.
type layout struct{ dir string }

func (l layout) pki(name string) string { return filepath.Join(l.dir, "pki", name) }
func (l layout) run(name string) string { return filepath.Join(l.dir, "run", name) }
func (l layout) kubeconfig() string     { return filepath.Join(l.dir, "kubeconfig") }
func (l layout) etcdData() string       { return filepath.Join(l.dir, "etcd") }
func (l layout) portFile() string       { return l.run("apiserver.port") }
func (l layout) etcdSocket() string     { return l.run("etcd.sock") }

// prepare makes the directories. Those with keys and sockets are for the owner only: access to etcd is
// guarded by nothing else.
func (l layout) prepare() error {
	if n := len(l.etcdSocket()); n > maxSocketPath {
		return fmt.Errorf("--dir %s is too deep: the socket %s has %d bytes, and a unix socket takes %d", l.dir, l.etcdSocket(), n, maxSocketPath)
	}
	for _, name := range []string{"pki", "run", "etcd"} {
		path := filepath.Join(l.dir, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// listenStable listens on the loopback port recorded in file, or on a free one that it records, so that a restarted
// control plane is found where it was. It returns the open listener: a port that is only noted can be taken by another process.
func listenStable(file string) (net.Listener, int, error) {
	recorded, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, 0, err
		}
		port := listener.Addr().(*net.TCPAddr).Port
		return listener, port, writeFile(file, []byte(strconv.Itoa(port)+"\n"), 0o600)
	case err != nil:
		return nil, 0, err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(recorded)))
	if err != nil || port < 1 || port > 65535 {
		return nil, 0, fmt.Errorf("%s: %q is not a port number; remove the file to have a new port chosen", file, recorded)
	}
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, 0, fmt.Errorf("the port recorded in %s is not free (remove the file to have a new port chosen): %w", file, err)
	}
	return listener, port, nil
}

// writeFile writes a file so that a reader sees all of it or nothing.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // does nothing once it has been renamed
	if err := errors.Join(tmp.Chmod(mode), writeAndClose(tmp, data)); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func writeAndClose(f *os.File, data []byte) error {
	_, err := f.Write(data)
	return errors.Join(err, f.Close())
}
