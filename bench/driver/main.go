// SPDX-License-Identifier: Apache-2.0

// Command driver creates the pods of one benchmark sample and notes when each is bound.
//
// It is Go and speaks protobuf because it shares two cores with what it measures: a client in Python spends several times
// the CPU on JSON and TLS, and makes the API server spend more as well. It reads a plan as one line of JSON from standard
// input and writes its findings as one line of JSON to standard output. All times are nanoseconds of this process's
// monotonic clock, since the first create was sent.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// plan is what to do.
type plan struct {
	Namespace string `json:"namespace"`
	Scheduler string `json:"scheduler"`
	Prefix    string `json:"prefix"`
	Gangs     int    `json:"gangs"`
	Size      int    `json:"size"`
	Workers   int    `json:"workers"`
	// Labels and Annotations go on every pod; {gang} and {size} are replaced in the values.
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	NodeSelector map[string]string `json:"node_selector"`
	// ResumePID is a stopped process: once all pods exist the driver writes the line "created", waits for a line on
	// standard input, and continues that process.
	ResumePID int `json:"resume_pid"`
	// CreateOnly leaves out the watch.
	CreateOnly bool    `json:"create_only"`
	TimeoutS   float64 `json:"timeout_s"`
}

// findings are what happened. Index i is pod i%size of gang i/size; Bound is -1 for a pod that was not seen bound.
type findings struct {
	Sent    []int64 `json:"sent"`
	Created []int64 `json:"created"`
	Bound   []int64 `json:"bound"`
	Resumed int64   `json:"resumed"`
	CPU     float64 `json:"cpu"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of an account that may create and watch pods (required)")
	flag.Parse()
	if err := run(*kubeconfig, bufio.NewReader(os.Stdin)); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, in *bufio.Reader) error {
	var p plan
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if err := json.Unmarshal(line, &p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	client, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.TimeoutS*float64(time.Second)))
	defer cancel()

	total := p.Gangs * p.Size
	found := &findings{Sent: make([]int64, total), Created: make([]int64, total), Resumed: -1}
	watch := newWatcher(client, p.Namespace, p.Prefix, total)
	if !p.CreateOnly {
		if err := watch.open(ctx); err != nil {
			return err
		}
	}
	start := time.Now()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if !p.CreateOnly {
			watch.run(ctx, start)
		}
	}()
	if err := create(ctx, client, &p, start, found); err != nil {
		return err
	}
	if p.ResumePID != 0 {
		fmt.Println("created")
		if _, err := in.ReadString('\n'); err != nil {
			return fmt.Errorf("wait for the word to resume: %w", err)
		}
		found.Resumed = int64(time.Since(start))
		if err := syscall.Kill(p.ResumePID, syscall.SIGCONT); err != nil {
			return fmt.Errorf("resume process %d: %w", p.ResumePID, err)
		}
	}
	<-watched
	found.Bound = watch.bound
	found.CPU = cpu()
	return json.NewEncoder(os.Stdout).Encode(found)
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType
	return kubernetes.NewForConfig(config)
}

// create makes all pods, those of a gang one after another, from several goroutines.
func create(ctx context.Context, client kubernetes.Interface, p *plan, start time.Time, found *findings) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	failed := make([]error, p.Workers)
	for worker := range p.Workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(found.Sent) {
					return
				}
				pod := p.pod(i)
				found.Sent[i] = int64(time.Since(start))
				if _, err := client.CoreV1().Pods(p.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					failed[worker] = fmt.Errorf("create pod %s: %w", pod.Name, err)
					return
				}
				found.Created[i] = int64(time.Since(start))
			}
		}()
	}
	wait.Wait()
	return errors.Join(failed...)
}

// cpu is what this process has used, in seconds.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
