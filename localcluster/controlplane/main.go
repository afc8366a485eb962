// SPDX-License-Identifier: Apache-2.0

// Command muster-controlplane runs a real Kubernetes control plane on loopback in one process:
// etcd, kube-apiserver and the controllers that matter to a scheduler. It is a tool for
// development and tests: everything it needs, PKI included, is made in one directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// shutdownGrace bounds a shutdown. Past it the process just leaves: etcd's log is already with the
// operating system, so nothing is lost that a graceful end would have kept.
const shutdownGrace = 2 * time.Second

func main() {
	dir := flag.String("dir", "", "directory for the cluster's state: pki/, etcd/, run/, kubeconfig (required)")
	featureGates := flag.String("feature-gates", "", "feature gates of the control plane, as for kube-apiserver")
	runtimeConfig := flag.String("runtime-config", "", "API versions to serve beyond the default, as for kube-apiserver")
	flag.Parse()
	if err := run(*dir, *featureGates, *runtimeConfig, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "muster-controlplane:", err)
		os.Exit(1)
	}
}

func run(dir, featureGates, runtimeConfig string, extra []string) error {
	if dir == "" {
		return errors.New("--dir is required")
	}
	if len(extra) > 0 {
		return fmt.Errorf("unexpected argument %q", extra[0])
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return serve(ctx, layout{dir}, featureGates, runtimeConfig)
}

// serve starts the parts in order and returns when ctx is done or a part fails.
func serve(ctx context.Context, at layout, featureGates, runtimeConfig string) error {
	began := time.Now()
	if err := at.prepare(); err != nil {
		return err
	}
	if err := ensurePKI(at); err != nil {
		return fmt.Errorf("pki: %w", err)
	}
	listener, port, err := listenStable(at.portFile())
	if err != nil {
		return err
	}
	defer listener.Close()

	// The loopback clients of the control plane use deprecated APIs on purpose; their warnings are noise.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	etcd, err := startEtcd(at)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	// Not Close: that waits for its clients, and the only one ends with this process.
	defer etcd.Server.Stop()
	klog.InfoS("etcd is up", "after", time.Since(began).Round(time.Millisecond))

	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	kcmConfig, err := at.writeComponentConfig("kcm", url)
	if err != nil {
		return err
	}

	failed := make(chan error, 3)
	stopped := make(chan struct{}, 2)
	supervise := func(name string, body func(context.Context) error) {
		go func() {
			err := body(ctx)
			if ctx.Err() == nil {
				failed <- fmt.Errorf("%s ended: %w", name, errOr(err, errors.New("without an error")))
			}
			stopped <- struct{}{}
		}()
	}
	apiserver, err := newAPIServer(ctx, at, listener, port, featureGates, runtimeConfig)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	supervise("kube-apiserver", apiserver)
	supervise("kube-controller-manager", func(ctx context.Context) error {
		// Its first requests would only fail and back off before the API is served.
		if err := waitReadyz(ctx, at, url); err != nil {
			return err
		}
		klog.InfoS("kube-apiserver is ready", "url", url, "after", time.Since(began).Round(time.Millisecond))
		return runControllers(ctx, at, kcmConfig)
	})
	go func() {
		if err := announce(ctx, at, url); err != nil && ctx.Err() == nil {
			failed <- err
			return
		}
		klog.InfoS("control plane is ready", "kubeconfig", at.kubeconfig(), "after", time.Since(began).Round(time.Millisecond))
	}()

	select {
	case err := <-failed:
		return err
	case <-etcd.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	case <-ctx.Done():
	}
	klog.InfoS("stopping")
	deadline := time.After(shutdownGrace)
	for range 2 {
		select {
		case <-stopped:
		case <-deadline:
			klog.InfoS("not waiting longer for a graceful end", "grace", shutdownGrace)
			return nil
		}
	}
	return nil
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
