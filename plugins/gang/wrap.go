// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// profileWrapper changes one step of a profile: the start of a wait.
type profileWrapper struct {
	framework.Framework
	stub *stub
}

// AddWaitingPod gives the wait the length that Permit asked for, which the framework has cut to 15 minutes, and then
// carries out what the server ordered since Permit returned: until here the framework could not.
func (w *profileWrapper) AddWaitingPod(pod *v1.Pod, waits map[string]time.Duration) {
	if _, ours := waits[Name]; !ours {
		w.Framework.AddWaitingPod(pod, waits)
		return
	}
	if limit, ok := w.stub.timer(pod.UID); ok {
		waits[Name] = limit
	}
	w.Framework.AddWaitingPod(pod, waits)
	w.stub.register(pod.UID)
}

// Wrap puts the wrapper around every profile. It must run before scheduling starts.
func (f *Factory) Wrap(profiles profile.Map) {
	for name, inner := range profiles {
		f.stub.frameworks[name] = inner
		profiles[name] = &profileWrapper{Framework: inner, stub: f.stub}
	}
}

// CheckProfiles returns one error that names every profile and extension point at which the plugin is missing or
// stands in the wrong place, and how to put that right. A gang scheduler that is half enabled would bind parts of
// gangs without a word.
func CheckProfiles(profiles profile.Map) error {
	var faults []string
	for name, profile := range profiles {
		for _, fault := range checkPlugins(profile.ListPlugins()) {
			faults = append(faults, fmt.Sprintf("profile %q: %s", name, fault))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return errors.New("plugin " + Name + " is not fully enabled:\n  " + strings.Join(faults, "\n  "))
}

func checkPlugins(plugins *config.Plugins) []string {
	if plugins == nil {
		plugins = &config.Plugins{}
	}
	var faults []string
	for _, point := range []struct {
		name, key, how string
		set            config.PluginSet
	}{
		{"QueueSort", "queueSort", `plugins.queueSort: {disabled: [{name: "*"}], enabled: [{name: ` + Name + `}]}`, plugins.QueueSort},
		{"PreEnqueue", "preEnqueue", "", plugins.PreEnqueue},
		{"PreFilter", "preFilter", "", plugins.PreFilter},
		{"PostFilter", "postFilter", "", plugins.PostFilter},
		{"Permit", "permit", "", plugins.Permit},
		{"Reserve", "reserve", "", plugins.Reserve},
	} {
		if position(point.set, Name) >= 0 {
			continue
		}
		how := point.how
		if how == "" {
			how = fmt.Sprintf("plugins.%s.enabled: [{name: %s}], or list it under plugins.multiPoint.enabled", point.key, Name)
		}
		faults = append(faults, fmt.Sprintf("missing at %s; set %s", point.name, how))
	}
	ours, preemption := position(plugins.PostFilter, Name), position(plugins.PostFilter, names.DefaultPreemption)
	if ours >= 0 && preemption >= 0 && preemption < ours {
		faults = append(faults, fmt.Sprintf("at PostFilter %s stands before %s, so gang members would evict others unasked; set "+
			`plugins.postFilter: {disabled: [{name: "*"}], enabled: [{name: %s}, {name: %s}, {name: %s}]}`,
			names.DefaultPreemption, Name, Name, names.DynamicResources, names.DefaultPreemption))
	}
	return faults
}

func position(set config.PluginSet, name string) int {
	return slices.IndexFunc(set.Enabled, func(p config.Plugin) bool { return p.Name == name })
}
