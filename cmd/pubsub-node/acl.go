package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"padme/broker"
	"padme/pubsub"
)

// aclNames are the users of a foreign broker by role.
type aclNames struct{ nodes, watchers, clients, gateways []string }

func newACL(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acl",
		Short: "Print who may read and write which topic",
		Long: `acl prints the access list of the topic contract: for the embedded broker, which
enforces it on every user of its --users file, and for mosquitto, as its acl_file.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var names aclNames
	embedded := &cobra.Command{
		Use:     "embedded",
		Short:   "The list that pubsub-node broker --users enforces",
		Example: `  pubsub-node acl embedded`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printEmbedded(cmd.OutOrStdout(), s.prefix) },
	}
	mosquitto := &cobra.Command{
		Use:   "mosquitto",
		Short: "An acl_file of mosquitto 2",
		Long: `mosquitto prints an acl_file for the users that are named by role. A user that is
not named takes part in publish and subscribe under its own name, and may ask for
locks, but never be the root of one.

mosquitto puts the bare user name where a topic has P, so only names of letters,
digits, - and _ can be given here.`,
		Example: `  pubsub-node acl mosquitto --node robot-1,robot-2 --watcher panel --client esp32 --gateway host > acl`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printMosquitto(cmd.OutOrStdout(), s.prefix, s.domain, &names)
		},
	}
	f := mosquitto.Flags()
	f.StringSliceVar(&names.nodes, "node", nil, "`names` that take part in locks and may become root")
	f.StringSliceVar(&names.watchers, "watcher", nil, "`names` that only read")
	f.StringSliceVar(&names.clients, "client", nil, "`names` that lock without this program")
	f.StringSliceVar(&names.gateways, "gateway", nil, "`names` of nodes that answer those clients")
	cmd.AddCommand(embedded, mosquitto)
	return cmd
}

func printEmbedded(w io.Writer, prefix string) error {
	root, err := pubsub.EncodeLevel(prefix)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "R is %s/v1/{domain}. P is the user's name, percent-encoded. What is not here is denied.\n\n", root)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "topic\twritten by\tread by\twhat")
	for _, r := range broker.Rules() {
		fmt.Fprintf(table, "R/%s\t%s\t%s\t%s\n", r.Topic, roleNames(r.Write), roleNames(r.Read), r.What)
	}
	fmt.Fprintln(table)
	for _, role := range []broker.Role{broker.Member, broker.Client, broker.Gateway, broker.Observer, broker.Admin} {
		option := ""
		if role != broker.Member {
			option = " --role " + string(role)
		}
		fmt.Fprintf(table, "%s\tpubsub-node broker passwd users NAME%s\n", roleName(role), option)
	}
	fmt.Fprintln(table, "\nAn admin may everything. A last will may go only where P stands.")
	return table.Flush()
}

func roleNames(roles []broker.Role) string {
	var names []string
	for _, r := range roles {
		names = append(names, roleName(r))
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, " ")
}

func roleName(r broker.Role) string {
	if r == broker.Member {
		return "member"
	}
	return string(r)
}

// printMosquitto prints what all users have in common as patterns, since those
// hold for every user, and what one role has more or less by user: mosquitto looks
// at a user's own lines first, and at its denials before all.
func printMosquitto(w io.Writer, prefix, domain string, names *aclNames) error {
	root, err := rootOf(prefix, domain)
	if err != nil {
		return err
	}
	if err := names.check(); err != nil {
		return err
	}
	fmt.Fprintf(w, `# mosquitto.conf:
#   allow_anonymous false
#   password_file FILE
#   acl_file THIS
#   max_packet_size 1048576
#   set_tcp_nodelay true
# mosquitto bounds neither rates nor filters: any user, also one that only reads, can keep it busy.
# %%u is the user's name. (%%c, the client id, is of no use: clients choose it.)
# mosquitto warns of patterns without either; they mean every user.
`)
	for _, r := range broker.Rules() {
		own, all := r.MayWrite(broker.Member) && strings.Contains(r.Topic, "P"), r.MayRead(broker.Observer)
		if access := accessName(all, own); access != "" {
			fmt.Fprintf(w, "pattern %s %s\n", access, mosquittoTopic(root, r.Topic, "%u"))
		}
	}
	printUsers(w, root, broker.Member, names.nodes)
	printUsers(w, root, broker.Gateway, names.gateways)
	printUsers(w, root, broker.Client, names.clients)
	printUsers(w, root, broker.Observer, names.watchers)
	return nil
}

// printUsers prints in what a role differs from the patterns.
func printUsers(w io.Writer, root string, role broker.Role, names []string) {
	for _, name := range names {
		fmt.Fprintf(w, "\n# %s\nuser %s\n", roleName(role), name)
		for _, r := range broker.Rules() {
			switch own := strings.Contains(r.Topic, "P"); {
			case own && r.MayWrite(broker.Member) && !r.MayWrite(role):
				fmt.Fprintf(w, "topic deny %s\n", mosquittoTopic(root, r.Topic, name))
			case !own && r.MayWrite(role):
				fmt.Fprintf(w, "topic %s %s\n", accessName(r.MayRead(role), true), mosquittoTopic(root, r.Topic, name))
				if topic, ok := strings.CutSuffix(r.Topic, "+/state"); ok { // or the filter would hold for a user of this name
					for _, family := range []string{"join", "member", "client"} {
						fmt.Fprintf(w, "topic deny %s\n", mosquittoTopic(root, topic+family+"/state", name))
					}
				}
			}
		}
	}
}

func mosquittoTopic(root, topic, name string) string {
	return root + "/" + strings.Replace(topic, "P", name, 1)
}

func accessName(read, write bool) string {
	switch {
	case read && write:
		return "readwrite"
	case write:
		return "write"
	case read:
		return "read"
	}
	return ""
}

func rootOf(prefix, domain string) (string, error) {
	p, err := pubsub.EncodeLevel(prefix)
	if err != nil {
		return "", fmt.Errorf("--prefix: %w", err)
	}
	d, err := pubsub.EncodeLevel(domain)
	if err != nil {
		return "", fmt.Errorf("--domain: %w", err)
	}
	return p + "/v1/" + d, nil
}

// check refuses names that a topic level would show in another form, and names
// with two roles.
func (n *aclNames) check() error {
	all := slices.Concat(n.nodes, n.watchers, n.clients, n.gateways)
	for i, name := range all {
		if level, err := pubsub.EncodeLevel(name); err != nil || level != name || name == "state" {
			return usageError("user %q: mosquitto needs a name of letters, digits, - and _ only, not \"state\"", name)
		}
		if slices.Contains(all[:i], name) {
			return usageError("user %q has two roles: choose one", name)
		}
	}
	return nil
}
