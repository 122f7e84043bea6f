/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Scalable TCP: T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", 2003. A hundredth of a
 * segment for each one acknowledged and an eighth less after a loss: recovery takes 13.4 round trips at any window.
 */
#include "lh.h"

/* Kelly's a = 0.01 for each acknowledgement. Smaller windows grow as Reno's do: his legacy window, in segments. */
#define LEGACY_WINDOW 100u
/* 1 - b, with Kelly's b = 1/8, in 1024ths. */
#define KEEP 896u

struct scalable {
	__u64 credit;
};
_Static_assert(sizeof(struct scalable) <= PRIVATE_BYTES, "the kernel leaves a rule so much room");

SEC("struct_ops/lh_scalable_init")
void BPF_PROG(lh_scalable_init, struct sock *sk)
{
	struct scalable *own = private_of(sk);

	own->credit = 0;
}

SEC("struct_ops/lh_scalable_cong_avoid")
void BPF_PROG(lh_scalable_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct scalable *own = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);

	if (!is_window_limited(tp))
		return;
	if (in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	grow(tp, &own->credit, acked, tp->snd_cwnd * ONE / at_least(at_most(tp->snd_cwnd, LEGACY_WINDOW), 1));
}

SEC("struct_ops/lh_scalable_ssthresh")
__u32 BPF_PROG(lh_scalable_ssthresh, struct sock *sk)
{
	struct scalable *own = private_of(sk);

	own->credit = 0;
	return reduced(tcp_of(sk), KEEP);
}

SEC("struct_ops/lh_scalable_undo_cwnd")
__u32 BPF_PROG(lh_scalable_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops lh_scalable = {
	.init = (void *)lh_scalable_init,
	.cong_avoid = (void *)lh_scalable_cong_avoid,
	.ssthresh = (void *)lh_scalable_ssthresh,
	.undo_cwnd = (void *)lh_scalable_undo_cwnd,
	.flags = LH_FLAGS,
	.name = "lh_scalable",
};
