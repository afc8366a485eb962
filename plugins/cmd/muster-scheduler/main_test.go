// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

func TestTheExpectedNodeIsNotPatchedUnlessTheUserAsksForIt(t *testing.T) {
	gate := features.NominatedNodeNameForExpectation
	cmd := newCommand()
	if err := cmd.ParseFlags(nil); err != nil {
		t.Fatal(err)
	}
	if err := cmd.PersistentPreRunE(cmd, nil); err != nil {
		t.Fatal(err)
	}
	if utilfeature.DefaultFeatureGate.Enabled(gate) {
		t.Fatalf("%s is on by default", gate)
	}
	if err := cmd.ParseFlags([]string{"--feature-gates=" + string(gate) + "=true"}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.PersistentPreRunE(cmd, nil); err != nil {
		t.Fatal(err)
	}
	if !utilfeature.DefaultFeatureGate.Enabled(gate) {
		t.Fatalf("%s cannot be turned on", gate)
	}
}
