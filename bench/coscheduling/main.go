// SPDX-License-Identifier: Apache-2.0

// Command coscheduling is kube-scheduler with the plugin Coscheduling of sigs.k8s.io/scheduler-plugins and no other:
// the in-process rival that the benchmark compares Muster with.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // the plugin's arguments in the configuration
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(coscheduling.Name, coscheduling.New))))
}
