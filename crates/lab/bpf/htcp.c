/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * H-TCP: D. Leith and R. Shorten, draft-leith-tcp-htcp. The longer ago the last loss, the faster the window grows; what
 * is given up at a loss follows from how much of the round trip is queue.
 */
#include "lh.h"

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

/* Delta_L: for so long after a loss H-TCP grows as Reno does. */
#define DELTA_LOW_MS 1000ull
/* Longer times count as this: alpha is then so large that the window doubles each round trip anyway. */
#define DELTA_MS_MAX 1000000ull
/* The round trip that needs no scaling, and how far scaling goes: 0.5 to 10 in 1024ths. */
#define RTT_REFERENCE_US 100000ull
#define SCALE_MIN 512ull
#define SCALE_MAX 10240ull
/* The share that is kept at a loss: 0.5 to 0.8, in 1024ths. */
#define BETA_MIN 512ull
#define BETA_MAX 819ull

struct before {
	__u64 loss_ns;
	__u32 rtt_max_us;
	__u32 rate;
	__u32 beta;
};

struct htcp {
	__u64 credit;
	__u64 loss_ns; /* the last loss, or the beginning */
	__u64 round_ns;
	__u32 round_end; /* the sequence number whose acknowledgement ends the round */
	__u32 round_segments;
	__u32 rtt_min_us;
	__u32 rtt_max_us;
	__u32 rate; /* segments a second, in 256ths: a mean over a few round trips */
	__u32 rate_at_loss;
	__u32 beta; /* the share that was kept at the last loss, in 1024ths */
	/* What the last loss overwrote, in case that it was none. */
	struct before before;
};
_Static_assert(sizeof(struct htcp) <= PRIVATE_BYTES, "the kernel leaves a rule so much room");

/* Growth per second instead of per round trip: the reference over the path's own, limited. */
static __always_inline __u64 scale(const struct htcp *own)
{
	return at_least(at_most(RTT_REFERENCE_US * ONE / at_least(own->rtt_min_us, 1), SCALE_MAX), SCALE_MIN);
}

/* alpha: 2 (1 - beta) (1 + 10 D + D^2 / 4) / scale, with D the seconds beyond Delta_L; its factor is at least 1. */
static __always_inline __u64 alpha(const struct htcp *own, __u64 now_ns)
{
	__u64 since_ms = at_most((now_ns - own->loss_ns) / NS_PER_MS, DELTA_MS_MAX);
	__u64 late_ms = at_least(since_ms, DELTA_LOW_MS) - DELTA_LOW_MS;
	__u64 factor = ONE + 10 * ONE * late_ms / 1000 + ONE / 4 * late_ms * late_ms / 1000000;

	factor = at_least(factor * ONE / scale(own), ONE);
	return 2 * (ONE - own->beta) * factor / ONE;
}

/*
 * Keep as much as empties the queue and no more: RTTmin / RTTmax. Where throughput changed by more than a fifth from
 * one loss to the next, capacity came or went, and half is kept.
 */
static __always_inline __u32 next_beta(const struct htcp *own)
{
	__u64 now = own->rate, then = own->rate_at_loss;
	__u64 change = now > then ? now - then : then - now;

	if (then == 0 || own->rtt_max_us == 0 || change * 5 > then)
		return BETA_MIN;
	return at_most(at_least(own->rtt_min_us * ONE / own->rtt_max_us, BETA_MIN), BETA_MAX);
}

static __always_inline bool has_round_ended(const struct htcp *own, const struct tcp_sock *tp)
{
	/* Sequence numbers wrap. */
	return (__s32)(tp->snd_una - own->round_end) >= 0;
}

static __always_inline void measure_rate(struct htcp *own, const struct tcp_sock *tp, __u32 segments)
{
	__u64 now_ns = bpf_ktime_get_ns(), span_ns = now_ns - own->round_ns, rate;

	own->round_segments += segments;
	if (!has_round_ended(own, tp) || span_ns == 0)
		return;
	rate = own->round_segments * 256 * NS_PER_S / span_ns;
	own->rate = own->rate ? (own->rate * 3ull + rate) / 4 : rate;
	own->round_ns = now_ns;
	own->round_end = tp->snd_nxt;
	own->round_segments = 0;
}

SEC("struct_ops/lh_htcp_init")
void BPF_PROG(lh_htcp_init, struct sock *sk)
{
	struct htcp *own = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	__u64 now_ns = bpf_ktime_get_ns();

	own->credit = 0;
	own->loss_ns = now_ns;
	own->round_ns = now_ns;
	own->round_end = tp->snd_nxt;
	own->round_segments = 0;
	own->rtt_min_us = 0;
	own->rtt_max_us = 0;
	own->rate = 0;
	own->rate_at_loss = 0;
	own->beta = BETA_MIN;
	own->before = (struct before){.loss_ns = now_ns, .beta = BETA_MIN};
}

SEC("struct_ops/lh_htcp_pkts_acked")
void BPF_PROG(lh_htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *own = private_of(sk);
	__s32 rtt_us = sample->rtt_us;

	/* Without a sample, as after a retransmission, it is negative. */
	if (rtt_us > 0) {
		own->rtt_min_us = own->rtt_min_us ? at_most(rtt_us, own->rtt_min_us) : rtt_us;
		own->rtt_max_us = at_least(rtt_us, own->rtt_max_us);
	}
	measure_rate(own, tcp_of(sk), sample->pkts_acked);
}

SEC("struct_ops/lh_htcp_cong_avoid")
void BPF_PROG(lh_htcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct htcp *own = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);

	if (!is_window_limited(tp))
		return;
	if (in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	grow(tp, &own->credit, acked, alpha(own, bpf_ktime_get_ns()));
}

SEC("struct_ops/lh_htcp_ssthresh")
__u32 BPF_PROG(lh_htcp_ssthresh, struct sock *sk)
{
	struct htcp *own = private_of(sk);

	own->before = (struct before){
		.loss_ns = own->loss_ns,
		.rtt_max_us = own->rtt_max_us,
		.rate = own->rate_at_loss,
		.beta = own->beta,
	};
	own->credit = 0;
	own->beta = next_beta(own);
	own->loss_ns = bpf_ktime_get_ns();
	own->rate_at_loss = own->rate;
	/* Routes change: a twentieth of the queue once seen is forgotten. */
	if (own->rtt_max_us > own->rtt_min_us)
		own->rtt_max_us -= (own->rtt_max_us - own->rtt_min_us) / 20;
	return reduced(tcp_of(sk), own->beta);
}

SEC("struct_ops/lh_htcp_undo_cwnd")
__u32 BPF_PROG(lh_htcp_undo_cwnd, struct sock *sk)
{
	struct htcp *own = private_of(sk);

	own->loss_ns = own->before.loss_ns;
	own->rtt_max_us = at_least(own->rtt_max_us, own->before.rtt_max_us);
	own->rate_at_loss = own->before.rate;
	own->beta = own->before.beta;
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops lh_htcp = {
	.init = (void *)lh_htcp_init,
	.pkts_acked = (void *)lh_htcp_pkts_acked,
	.cong_avoid = (void *)lh_htcp_cong_avoid,
	.ssthresh = (void *)lh_htcp_ssthresh,
	.undo_cwnd = (void *)lh_htcp_undo_cwnd,
	.flags = LH_FLAGS,
	.name = "lh_htcp",
};
