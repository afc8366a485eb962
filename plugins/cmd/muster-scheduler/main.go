// SPDX-License-Identifier: Apache-2.0

// Command muster-scheduler is kube-scheduler with the plugin Muster built in.
//
// It takes the flags and the configuration of kube-scheduler. It refuses to start unless every profile enables the
// plugin at all the extension points it needs.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metrics
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/gang"
)

const component = "muster-scheduler"

// beforeRun is a place for builds with another purpose to change the scheduler; see failpoints.go.
var beforeRun = func(*scheduler.Scheduler) {}

func main() {
	os.Exit(cli.Run(newCommand()))
}

// newCommand is app.NewSchedulerCommand with a step between Setup and Run.
func newCommand() *cobra.Command {
	// Kube-scheduler would patch the expected node into the status of every pod that waits at Permit: one more request
	// per gang member, which nobody reads. This changes the default only; --feature-gates still decides.
	utilruntime.Must(overrideDefault(features.NominatedNodeNameForExpectation, false))

	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:  component,
		Long: "muster-scheduler is kube-scheduler with the plugin Muster, which schedules gangs of pods as muster-server decides.",
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			// Without this the flag --feature-gates has no effect.
			return opts.ComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd, opts)
		},
	}
	flags := opts.Flags
	verflag.AddFlags(flags.FlagSet("global"))
	globalflag.AddGlobalFlags(flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *flags, columns)
	return cmd
}

// overrideDefault changes what a feature gate is when nobody sets it. Once a command exists its gates are closed, so
// a second command of the same process finds it done.
func overrideDefault(feature featuregate.Feature, value bool) error {
	if utilfeature.DefaultFeatureGate.Enabled(feature) == value {
		return nil
	}
	return utilfeature.DefaultMutableFeatureGate.OverrideDefault(feature, value)
}

func run(cmd *cobra.Command, opts *options.Options) error {
	verflag.PrintAndExitIfRequested()
	gate := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gate); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	name, err := cache.NewInformerName(component)
	if err != nil {
		return err
	}
	opts.InformerName = name

	ctx, cancel := context.WithCancel(genericapiserver.SetupSignalContext())
	defer cancel()
	factory := gang.NewFactory()
	config, sched, err := app.Setup(ctx, opts, app.WithPlugin(gang.Name, factory.New))
	if err != nil {
		return err
	}
	if err := gang.CheckProfiles(sched.Profiles); err != nil {
		return fmt.Errorf("refusing to start: %w", err)
	}
	factory.Wrap(sched.Profiles)
	startWithFirstPop(ctx, sched, factory)
	beforeRun(sched)
	if mutable, ok := gate.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, config, sched)
}

// startWithFirstPop opens the session when the scheduling loop first asks for work, which only the leader does. A
// replica on standby has informers too, but must not take the server away from the leader.
func startWithFirstPop(ctx context.Context, sched *scheduler.Scheduler, factory *gang.Factory) {
	next := sched.NextEntity
	var start sync.Once
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		start.Do(func() { go factory.Run(ctx) })
		return next(logger)
	}
}
