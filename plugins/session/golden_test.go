// SPDX-License-Identifier: Apache-2.0

package session

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"muster.dev/muster/plugins/pb"
)

const goldenDir = "../../tests/contract/golden"

// The golden messages are read by the tests of both sides: what one of them writes, the other must understand.
func TestTheGoldenMessagesSurviveBothEncodings(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	for path, message := range golden(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := protojson.Unmarshal(text, message); err != nil {
				t.Fatal(err)
			}
			note(message.ProtoReflect(), seen)

			binary, err := proto.Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			fromBinary := message.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(binary, fromBinary); err != nil {
				t.Fatal(err)
			}
			again, err := protojson.Marshal(fromBinary)
			if err != nil {
				t.Fatal(err)
			}
			fromText := message.ProtoReflect().New().Interface()
			if err := protojson.Unmarshal(again, fromText); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(message, fromBinary) || !proto.Equal(message, fromText) {
				t.Fatalf("%v became %v and %v", message, fromBinary, fromText)
			}
		})
	}
	for _, file := range []protoreflect.FileDescriptor{pb.File_muster_v1_scheduling_proto} {
		messages := file.Messages()
		for i := range messages.Len() {
			if name := messages.Get(i).FullName(); !seen[name] {
				t.Errorf("no golden message holds a %s", name)
			}
		}
	}
}

// golden maps each file to an empty message of its kind.
func golden(t *testing.T) map[string]proto.Message {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden messages: %v", err)
	}
	all := map[string]proto.Message{}
	for _, path := range paths {
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, "scheduler_"):
			all[path] = &pb.SchedulerFrame{}
		case strings.HasPrefix(name, "server_"):
			all[path] = &pb.ServerFrame{}
		default:
			t.Errorf("%s begins with neither scheduler_ nor server_", name)
		}
	}
	return all
}

// note records every kind of message within.
func note(message protoreflect.Message, seen map[protoreflect.FullName]bool) {
	seen[message.Descriptor().FullName()] = true
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				note(value.List().Get(i).Message(), seen)
			}
		default:
			note(value.Message(), seen)
		}
		return true
	})
}

func TestEveryReplyFitsItsOwnRequestOnly(t *testing.T) {
	requests := []*pb.SchedulerFrame{preFilter(1), {Body: &pb.SchedulerFrame_PostFilter{}}, {Body: &pb.SchedulerFrame_Permit{}}}
	replies := []*pb.ServerFrame{
		preFilterReply(1),
		{Body: &pb.ServerFrame_PostFilter{PostFilter: &pb.PostFilterReply{}}},
		{Body: &pb.ServerFrame_Permit{Permit: &pb.PermitReply{}}},
	}
	for i, request := range requests {
		for j, reply := range replies {
			if got := fits(request, reply); got != (i == j) {
				t.Errorf("%v and %v: %v", reflect.TypeOf(request.Body), reflect.TypeOf(reply.Body), got)
			}
		}
	}
}
