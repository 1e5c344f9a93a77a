// Variables as Go names them.
package main

import (
	"fmt"
	"os"
	"unsafe"
)

type node struct {
	value int64
	next  *node
}

type statistics struct {
	Hits  uint64
	Names []string
}

var counter int32 = 7
var stats statistics
var slot *statistics = &stats
var head = &node{value: 5, next: &node{value: 6}}
var items = []node{{value: 1}, {value: 2}}
var grid [3][4]uint16
var word = string([]byte("word"))
var triple = &[3]int16{1, 2, 3}
var table = map[int]int{1: 2}
var behind = &items

func show(name string, p unsafe.Pointer, size uintptr) {
	fmt.Printf("%s\t%p\t%d\n", name, p, size)
}

func main() {
	show("main.counter", unsafe.Pointer(&counter), unsafe.Sizeof(counter))
	show("main.head", unsafe.Pointer(&head), unsafe.Sizeof(head))
	show("main.head.value", unsafe.Pointer(&head.value), 8)
	show("main.head.next.value", unsafe.Pointer(&head.next.value), 8)
	show("main.items[1].value", unsafe.Pointer(&items[1].value), 8)
	stats.Names = []string{"a", "b"}
	show("main.stats", unsafe.Pointer(&stats), unsafe.Sizeof(stats))
	show("main.stats.Hits", unsafe.Pointer(&stats.Hits), 8)
	show("main.stats.Names[1].len", unsafe.Add(unsafe.Pointer(&stats.Names[1]), 8), 8)
	show("main.slot.Hits", unsafe.Pointer(&slot.Hits), 8)
	show("main.grid[2][3]", unsafe.Pointer(&grid[2][3]), 2)
	show("main.word[2]", unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&word)), 2), 1)
	show("main.stats.Names[1][0]", *(*unsafe.Pointer)(unsafe.Pointer(&stats.Names[1])), 1)
	show("main.triple[2]", unsafe.Pointer(&triple[2]), 2)
	show("main.behind[1].value", unsafe.Pointer(&(*behind)[1].value), 8)
	table[2] = len(table)
	fmt.Println("done")
	buf := make([]byte, 1)
	os.Stdin.Read(buf)
}
