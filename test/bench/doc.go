// Command bench measures Agent-Reach beside something else in the same run, and prints one row for each figure.
//
// Node, agents, the NATS server and its responder are processes of their own on loopback; this process is the caller. Where two things are compared,
// rounds of both alternate, and the row is the median ratio: a noisy machine disturbs both alike. It is a module of its own, so that what it
// compares with is no dependency of the product.
package main
