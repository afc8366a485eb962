// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

func raw(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }

func TestArgsAreReadAndDefaulted(t *testing.T) {
	args, err := decodeArgs(raw(`{"server":"unix:///run/muster/server.sock"}`))
	if err != nil || args.CallTimeout.Duration != 500*time.Millisecond {
		t.Fatalf("got %+v, %v", args, err)
	}
	args, err = decodeArgs(raw("server: muster:7443\ncallTimeout: 2s\ntls: {caFile: a, certFile: b, keyFile: c, serverName: d}"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (&TLSArgs{CAFile: "a", CertFile: "b", KeyFile: "c", ServerName: "d"}); args.CallTimeout.Duration != 2*time.Second || !reflect.DeepEqual(args.TLS, want) {
		t.Fatalf("got %+v", args)
	}
}

func TestArgsThatAreWrongAreRefusedByKeyAndValue(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                 "server: a value is required",
		`{"server":"unix:///s","sever":"x"}`: `unknown field "sever"`,
		`{"server":"unix:///s","callTimeout":"1ms"}`:           `callTimeout: "1ms" is not within 10ms and 10s`,
		`{"server":"unix:///s","callTimeout":"1m"}`:            `callTimeout: "1m0s" is not within 10ms and 10s`,
		`{"server":"unix:///s","callTimeout":"-1s"}`:           `callTimeout: "-1s"`,
		`{"server":"unix:///s","callTimeout":"soon"}`:          `soon`,
		`{"server":"10.0.0.1:7443"}`:                           `tls: required because server is "10.0.0.1:7443"`,
		`{"server":"h:1","tls":{"caFile":"a","certFile":"b"}}`: "tls.keyFile: a value is required",
		`{"server":"h:1","tls":{"caFil":"a"}}`:                 `unknown field "caFil"`,
		`[`:                                                    "args of plugin Muster",
	} {
		if _, err := decodeArgs(raw(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := decodeArgs(&config.InterPodAffinityArgs{}); err == nil {
		t.Error("args of another type were taken")
	}
}

func TestTheMarksAreThoseOfTheContract(t *testing.T) {
	text, err := os.ReadFile("../../tests/contract/marks.json")
	if err != nil {
		t.Fatal(err)
	}
	var marks struct{ AnnotationPrefixes, LabelPrefixes []string }
	if err := json.Unmarshal(text, &marks); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(marks.AnnotationPrefixes, annotationPrefixes) || !reflect.DeepEqual(marks.LabelPrefixes, labelPrefixes) {
		t.Fatalf("the contract has %+v", marks)
	}
}

func TestAMarkIsFoundAmongLabelsAndAnnotations(t *testing.T) {
	for key, want := range map[string]bool{
		"gang.scheduling.koordinator.sh/name": true, "gang.muster.dev/task": true,
		"gang.scheduling.koordinator.sh": false, "app": false, "pod-group.scheduling.sigs.k8s.io": false,
	} {
		pod := plainPod("a")
		pod.Annotations = map[string]string{"x": "y", key: "v"}
		if marked(pod) != want {
			t.Errorf("annotation %s: want %v", key, want)
		}
	}
	for key, want := range map[string]bool{
		"pod-group.scheduling.sigs.k8s.io": true, "pod-group.scheduling.sigs.k8s.io/name": true,
		"scheduling.x-k8s.io/pod-group": true, "gang.muster.dev/task": true, "gang.scheduling.koordinator.sh/name": false,
	} {
		pod := plainPod("a")
		pod.Labels = map[string]string{"x": "y", key: "v"}
		if marked(pod) != want {
			t.Errorf("label %s: want %v", key, want)
		}
	}
}

type namedHandle struct {
	*fakeHandle
	name    string
	factory informers.SharedInformerFactory
}

func (h *namedHandle) ProfileName() string                                    { return h.name }
func (h *namedHandle) KubeConfig() *rest.Config                               { return &rest.Config{} }
func (h *namedHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

func TestProfilesShareOneStubAndMustHaveTheSameArgs(t *testing.T) {
	factory := NewFactory()
	informers := informers.NewSharedInformerFactory(nil, 0)
	create := func(name, args string) (*Plugin, error) {
		plugin, err := factory.New(context.Background(), raw(args), &namedHandle{newHandle(), name, informers})
		if err != nil {
			return nil, err
		}
		return plugin.(*Plugin), nil
	}
	first, err := create("one", `{"server":"unix:///s"}`)
	if err != nil {
		t.Fatal(err)
	}
	second, err := create("two", `{"server":"unix:///s","callTimeout":"500ms"}`)
	if err != nil || first.stub != second.stub || !second.stub.profiles.HasAll("one", "two") {
		t.Fatalf("got %v, %v", second, err)
	}
	if _, err := create("three", `{"server":"unix:///other"}`); err == nil || !strings.Contains(err.Error(), `profile "three" has others than "one"`) {
		t.Fatalf("got %v", err)
	}
}

type listed struct {
	framework.Framework
	plugins *config.Plugins
}

func (l listed) ListPlugins() *config.Plugins { return l.plugins }

func set(names ...string) (s config.PluginSet) {
	for _, name := range names {
		s.Enabled = append(s.Enabled, config.Plugin{Name: name})
	}
	return s
}

func TestTheStartUpCheckNamesProfileAndMissingPoints(t *testing.T) {
	good := &config.Plugins{
		QueueSort: set(Name), PreEnqueue: set("SchedulingGates", Name), PreFilter: set("NodeResourcesFit", Name),
		PostFilter: set(Name, "DynamicResources", "DefaultPreemption"), Permit: set(Name), Reserve: set("VolumeBinding", Name),
	}
	if err := CheckProfiles(profile.Map{"good": listed{plugins: good}}); err != nil {
		t.Fatal(err)
	}
	noPreemption := good.DeepCopy()
	noPreemption.PostFilter = set(Name)
	if err := CheckProfiles(profile.Map{"good": listed{plugins: noPreemption}}); err != nil {
		t.Fatal(err)
	}

	half := good.DeepCopy()
	half.QueueSort, half.Permit = set("PrioritySort"), config.PluginSet{}
	late := good.DeepCopy()
	late.PostFilter = set("DefaultPreemption", Name)
	err := CheckProfiles(profile.Map{"good": listed{plugins: good}, "half": listed{plugins: half}, "late": listed{plugins: late}, "none": listed{}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`profile "half": missing at QueueSort; set plugins.queueSort: {disabled: [{name: "*"}], enabled: [{name: Muster}]}`,
		`profile "half": missing at Permit; set plugins.permit.enabled`,
		`profile "late": at PostFilter DefaultPreemption stands before Muster`,
		`profile "none": missing at Reserve`, `profile "none": missing at PreEnqueue`, `profile "none": missing at PreFilter`, `profile "none": missing at PostFilter`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	for _, not := range []string{`"good"`, `"half": missing at Reserve`, `"late": missing`} {
		if strings.Contains(err.Error(), not) {
			t.Errorf("the error says %q:\n%v", not, err)
		}
	}
}
