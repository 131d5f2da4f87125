package broker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
)

func ExampleStart() {
	ctx := context.Background()
	var users broker.Users
	if err := users.Add("crane", "secret"); err != nil {
		fmt.Println(err)
		return
	}
	b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0", Users: &users})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close(ctx)

	c := paho.NewClient(paho.NewClientOptions().AddBroker(b.URL()).SetUsername("crane").SetPassword("secret"))
	if token := c.Connect(); token.Wait() && token.Error() != nil {
		fmt.Println(token.Error())
		return
	}
	defer c.Disconnect(250)
	fmt.Println("connected:", c.IsConnected())
	// Output: connected: true
}

func ExampleBroker_Dial() {
	ctx := context.Background()
	b, err := broker.Start(ctx, broker.Config{}) // no port
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close(ctx)

	// paho wants some address, which it does not use.
	opts := paho.NewClientOptions().AddBroker("mqtt://in-process").
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return b.Dial(ctx) })
	c := paho.NewClient(opts)
	c.Connect().Wait()
	defer c.Disconnect(250)
	received := make(chan string, 1)
	c.Subscribe("greeting", 1, func(_ paho.Client, m paho.Message) { received <- string(m.Payload()) }).Wait()
	c.Publish("greeting", 1, false, "hello").Wait()
	select {
	case s := <-received:
		fmt.Println(s)
	case <-time.After(10 * time.Second):
		fmt.Println("nothing")
	}
	// Output: hello
}

func ExampleUsers_Save() {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users")

	var users broker.Users
	err = errors.Join(users.Add("watch", "secret"), users.Grant("watch", broker.Observer), users.Save(path))
	if err != nil {
		fmt.Println(err)
		return
	}
	loaded, err := broker.LoadUsers(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("watch is a user:", loaded.Remove("watch"))
	fmt.Println("others:", loaded.Len())
	// Output:
	// watch is a user: true
	// others: 0
}

// The users of a broker are kept in a file, which holds no passwords.
func ExampleLoadUsers() {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users")
	if err := os.WriteFile(path, []byte("# as by `pubsub-node broker passwd`\nrobot-2:!\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	users, err := broker.LoadUsers(path)
	fmt.Println(err)
	fmt.Println("robot-2:", users.Remove("robot-2"), "robot-3:", users.Remove("robot-3"))
	_, err = broker.LoadUsers(filepath.Join(dir, "none"))
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output:
	// <nil>
	// robot-2: true robot-3: false
	// true
}

// Who may publish what, for the access list of a broker that is not ours.
func ExampleRules() {
	for _, rule := range broker.Rules() {
		if rule.MayRead(broker.Observer) && !rule.MayWrite(broker.Observer) && rule.Topic == "lock/+/+/state" {
			fmt.Println("an observer reads", rule.Topic)
		}
	}
	// Output: an observer reads lock/+/+/state
}

// An operator who knows the limits by their defaults changes one.
func ExampleDefaultLimits() {
	limits := broker.DefaultLimits()
	fmt.Println(limits.UserSessions, "sessions of a user, each for", limits.SessionExpiry)

	limits.UserSessions = 100
	b, err := broker.Start(context.Background(), broker.Config{Limits: limits})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close(context.Background())
	// Output: 16 sessions of a user, each for 72h0m0s
}
