// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/spf13/pflag"
	kcmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// controllers are those a user of a scheduler sees at work. Without the service account controller no pod can be
// created, without node lifecycle no node loses its not-ready taint.
var controllers = []string{
	names.ServiceAccountController,
	names.RootCACertificatePublisherController,
	names.ClusterRoleAggregationController,
	names.NamespaceController,
	names.GarbageCollectorController,
	names.ResourceQuotaController,

	names.NodeLifecycleController,
	names.TaintEvictionController,
	names.PodGarbageCollectorController,
	names.DisruptionController, // its status tells preemption what a PodDisruptionBudget allows

	names.JobController,
	names.TTLAfterFinishedController,
	names.DeploymentController,
	names.ReplicaSetController,
	names.StatefulSetController,
	names.DaemonSetController,
}

// runControllers runs the controllers until ctx is done, each under its own service account.
func runControllers(ctx context.Context, at layout, kubeconfig string) error {
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := kcmapp.KnownControllers(), kcmapp.ControllersDisabledByDefault(), kcmapp.ControllerAliases()
	named := opts.Flags(known, disabled, aliases)
	opts.ParsedFlags = &named
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, set := range named.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + at.pki("sa.key"),
		"--root-ca-file=" + at.pki("ca.crt"),
		// The default of 20 requests a second is for sharing a cluster; here it would only hold up jobs of many pods.
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}); err != nil {
		return err
	}
	config, err := opts.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	return kcmapp.Run(ctx, config.Complete())
}
