// Functions as Go names them.
package main

import (
	"fmt"
	"os"
	"reflect"
)

type Pool struct{ n int }

//go:noinline
func (p *Pool) Get() int { return p.n }

//go:noinline
func helper(n int) int { return n * 2 }

func show(name string, f interface{}) {
	fmt.Printf("at %s\t%#x\t1\n", name, reflect.ValueOf(f).Pointer())
}

func main() {
	p := &Pool{3}
	show("main.(*Pool).Get", (*Pool).Get)
	show("main.helper", helper)
	show("helper", helper)
	fmt.Println("done")
	buf := make([]byte, 1)
	os.Stdin.Read(buf)
	fmt.Println(p.Get() + helper(1))
}
