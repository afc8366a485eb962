// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	clusterName  = "muster-local"
	readyTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// announce waits until pods can be created, then writes the administrator's kubeconfig: its presence is the
// sign that the cluster can be used.
func announce(ctx context.Context, at layout, url string) error {
	if err := waitReadyz(ctx, at, url); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(restConfig(at, url))
	if err != nil {
		return err
	}
	err = poll(ctx, "service account default/default", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return at.writeKubeconfig(at.kubeconfig(), "admin", url)
}

func waitReadyz(ctx context.Context, at layout, url string) error {
	http, err := rest.HTTPClientFor(restConfig(at, url))
	if err != nil {
		return err
	}
	return poll(ctx, url+"/readyz", func(ctx context.Context) error { return getOK(ctx, http, url+"/readyz") })
}

func getOK(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

func poll(ctx context.Context, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	last := errors.New("never tried")
	for ctx.Err() == nil {
		// A request that was accepted before anything served it must not hold up the wait.
		attempt, done := context.WithTimeout(ctx, 2*time.Second)
		err := probe(attempt)
		done()
		if err == nil {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	return fmt.Errorf("waiting for %s: %w (last: %w)", what, ctx.Err(), last)
}

// restConfig is the administrator's access, from the files.
func restConfig(at layout, url string) *rest.Config {
	return &rest.Config{
		Host: url,
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   at.pki("ca.crt"),
			CertFile: at.pki("admin.crt"),
			KeyFile:  at.pki("admin.key"),
		},
	}
}

// writeComponentConfig writes the kubeconfig of a part of the control plane and returns its path.
func (l layout) writeComponentConfig(identity, url string) (string, error) {
	path := l.pki(identity + ".kubeconfig")
	return path, l.writeKubeconfig(path, identity, url)
}

// writeKubeconfig writes a kubeconfig for the client certificate pki/identity.crt. The file holds the keys
// themselves, so that it can be copied or mounted elsewhere.
func (l layout) writeKubeconfig(path, identity, url string) error {
	ca, err1 := os.ReadFile(l.pki("ca.crt"))
	cert, err2 := os.ReadFile(l.pki(identity + ".crt"))
	key, err3 := os.ReadFile(l.pki(identity + ".key"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos[identity] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: identity}
	config.CurrentContext = clusterName
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(path, data, 0o600)
}
