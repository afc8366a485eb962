// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs a single-member etcd on a unix socket. Whoever reaches etcd owns the cluster, and a socket in a
// directory of mode 0700 keeps other users of the machine out at no cost per request.
func startEtcd(at layout) (*embed.Etcd, error) {
	if err := os.Remove(at.etcdSocket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // a socket left by a killed process would block the new one
	}
	cfg := embed.NewConfig()
	cfg.Name = "local"
	cfg.Dir = at.etcdData()
	cfg.ListenClientUrls = socketURL(at.etcdSocket())
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	// A lone member needs an address as its name in the cluster, but has no peer to listen to.
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = cfg.ListenClientUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// The data survives the death of this process, which is what tests do to it; only a crash of the machine loses it.
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{"stderr"}
	// A single member elects itself when the election timeout has passed: keep that short.
	cfg.TickMs = 10
	cfg.ElectionMs = 100
	cfg.QuotaBackendBytes = 8 << 30

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, err
	case <-time.After(30 * time.Second):
		etcd.Close()
		return nil, errors.New("not ready after 30 s")
	}
}

func socketURL(path string) []url.URL {
	return []url.URL{{Scheme: "unix", Path: path}}
}
