// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	serviceRange   = "10.0.0.0/24"
	frontProxyName = "front-proxy-client"
)

// serviceIP is the address of the service "kubernetes": the first of serviceRange.
var serviceIP = net.IPv4(10, 0, 0, 1)

// newAPIServer checks the options of a kube-apiserver and returns the function that runs it. Its command is not
// used because it would take over the signals of the process.
func newAPIServer(ctx context.Context, at layout, listener net.Listener, port int, featureGates, runtimeConfig string) (func(context.Context) error, error) {
	opts := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	args := []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // a loopback address is no valid endpoint
		"--service-cluster-ip-range=" + serviceRange,
		"--etcd-servers=unix://" + at.etcdSocket(),

		"--tls-cert-file=" + at.pki("apiserver.crt"),
		"--tls-private-key-file=" + at.pki("apiserver.key"),
		"--client-ca-file=" + at.pki("ca.crt"),
		"--anonymous-auth=false",
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + at.pki("sa.pub"),
		"--service-account-signing-key-file=" + at.pki("sa.key"),

		// With these the API server publishes what delegated authentication needs, as on any real cluster.
		"--requestheader-client-ca-file=" + at.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + at.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + at.pki("front-proxy-client.key"),
	}
	if featureGates != "" {
		args = append(args, "--feature-gates="+featureGates)
	}
	if runtimeConfig != "" {
		args = append(args, "--runtime-config="+runtimeConfig)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	opts.SecureServing.Listener = listener
	// Feature gates take effect here and are global: the controllers in this process get the same.
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	if err := logsapi.ValidateAndApply(opts.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return nil, err
	}
	completed, err := opts.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	return func(ctx context.Context) error { return apiapp.Run(ctx, completed) }, nil
}
