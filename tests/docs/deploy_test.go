package docs

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "docs/examples/deploy"

// manifest is what is read of a Kubernetes object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		MaxUnavailable int `yaml:"maxUnavailable"`
		Selector       struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct{ Containers []container }
		}
	}
}

type container struct {
	Args           []string
	ReadinessProbe *struct{ Exec struct{ Command []string } } `yaml:"readinessProbe"`
}

// manifests are those of the example, of one kind.
func manifests(t *testing.T, kind string) (all []manifest) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(read(t, deploy+"/kubernetes.yaml"))); ; {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if m.Kind == kind {
			all = append(all, m)
		}
	}
}

// Kubernetes knows when a process serves, and takes no two voters at a time.
func TestManifestsTellWhenTheyServe(t *testing.T) {
	sets := manifests(t, "StatefulSet")
	if len(sets) != 2 {
		t.Fatalf("%d sets", len(sets))
	}
	budgets := manifests(t, "PodDisruptionBudget")
	for _, set := range sets {
		for _, c := range set.Spec.Template.Spec.Containers {
			takes := programs["pubsub-node"].below[c.Args[0]]
			for _, arg := range c.Args {
				if strings.HasPrefix(arg, "--") && takes.flags[arg] == "" {
					t.Errorf("%s: %s has no %s", set.Metadata.Name, c.Args[0], arg)
				}
			}
			if c.ReadinessProbe == nil {
				t.Errorf("%s has no readinessProbe", set.Metadata.Name)
				continue
			}
			if c.Args[0] != "serve" {
				continue
			}
			file := slices.Index(c.Args, "--ready-file") + 1
			if want := []string{"test", "-f", c.Args[file]}; file == 0 || !slices.Equal(c.ReadinessProbe.Exec.Command, want) {
				t.Errorf("%s: the probe is %q, and the arguments %q", set.Metadata.Name, c.ReadinessProbe.Exec.Command, c.Args)
			}
			if !slices.ContainsFunc(budgets, func(b manifest) bool {
				return b.Spec.MaxUnavailable == 1 && b.Spec.Selector.MatchLabels["app"] == set.Spec.Template.Metadata.Labels["app"]
			}) {
				t.Errorf("%s has no PodDisruptionBudget", set.Metadata.Name)
			}
		}
	}
}

// Who begins finds what to deploy.
func TestPagesNameWhatToDeploy(t *testing.T) {
	for _, page := range []string{"README.md", "docs/tutorial.md", "docs/operations.md"} {
		to, err := filepath.Rel(filepath.Dir(page), deploy)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(read(t, page), "]("+filepath.ToSlash(to)+")") {
			t.Errorf("%s has no link to %s", page, deploy)
		}
	}
}
