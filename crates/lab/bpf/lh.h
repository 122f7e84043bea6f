/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* What the window rules of this folder share: how they reach a socket and how a window grows by a fraction. */
#ifndef LH_H
#define LH_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The kernel lends its functions to programs under the GPL alone, and so these are under it too, at choice. */
char dual_license[] SEC("license") = "Dual MIT/GPL";

/* Functions of the kernel's TCP that every rule calls: none of the rules compared here changes what they do. */
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Fixed point: gains, factors and shares are in 1024ths. */
#define ONE 1024ull

/* Below two segments nothing would make the receiver acknowledge at once (RFC 5681, equation 4). */
#define SSTHRESH_MIN 2u

/* Room that the kernel leaves a rule in each socket, in bytes. */
#define PRIVATE_BYTES sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv)

/* Programs in network namespaces may choose the rule by sysctl, not only by socket option. */
#define LH_FLAGS 1 /* TCP_CONG_NON_RESTRICTED, which is a macro and therefore not among the kernel's types */

static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline void *private_of(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u64 at_least(__u64 value, __u64 floor)
{
	return value < floor ? floor : value;
}

static __always_inline __u64 at_most(__u64 value, __u64 ceiling)
{
	return value > ceiling ? ceiling : value;
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/*
 * Whether the window was what held the sender back lately; only then may it grow (RFC 7661). In slow start
 * half of it in use is enough, since the window doubles before its use shows.
 */
static __always_inline bool is_window_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * Grow by `gain` / 1024 segments for each window of segments acknowledged. What does not make a whole segment is kept
 * in `credit`, in segments acknowledged times gain.
 */
static __always_inline void grow(struct tcp_sock *tp, __u64 *credit, __u32 acked, __u64 gain)
{
	__u64 price = at_least(tp->snd_cwnd, 1) * ONE;
	__u64 sum = *credit + acked * gain;
	__u64 window = tp->snd_cwnd + sum / price;

	*credit = sum % price;
	tp->snd_cwnd = at_most(window, tp->snd_cwnd_clamp);
}

/* The threshold after a loss that leaves `keep` / 1024 of the window. */
static __always_inline __u32 reduced(const struct tcp_sock *tp, __u64 keep)
{
	return at_least(tp->snd_cwnd * keep / ONE, SSTHRESH_MIN);
}

#endif
