/* Who owns a job of a replica set: one job, workers that claim it without a transaction, a rescuer, and a primary that is deposed and
   does not know it.

   The primary is a log of states. A majority has the first, and gets the next ones in their order. A fail-over keeps any part of what
   only the primary had; the old primary goes on, and answers all that needs no majority: local reads, majority reads of what it had by
   then, writes for one member, and majority writes that match nothing. The driver sends each command to either of them. Nobody can
   tell them apart but by a majority write that changes something, or a read at a time that only the new one has reached.

   A claim reads back its lease only. The code reads the job, too, which is one guard more: READS_JOB_BACK. There is no clock: a lease
   may look overdue at any moment, and whoever does nothing for a while is frozen. The last worker is never taken for dead, so that
   somebody ends the job. Faults are counted down from FAULTS. The name of a mutant as -D takes one guard out; checks.toml says which. */

#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef FAILOVERS
#define FAILOVERS 2
#endif
#define MORTALS (WORKERS - 1)
#define RESCUER WORKERS
#define CLIENTS (WORKERS + 1)
#define LOG 3                       /* the most writes that a majority does not have yet */
#define ROOM 5                      /* and the first write of a new primary, and the state that a majority has */
#define NONCES 7

/* A state: who has the job under which nonce, or nobody; whether it is done, under that token; which leases have ended. */
#define TOKEN(s) ((s) & 31)
#define DONE 32
#define ENDED(w) (64 << (w))
#define NEW_TOKEN(w, nonce) (8 * (w) + (nonce))
#define IS_DONE(s) (((s) & DONE) != 0)
#define IS_FREE(s) (TOKEN(s) == 0)
#define IS_OF(s, t) (TOKEN(s) == (t) && !IS_DONE(s))
#define IS_HELD_BY(s, w) (TOKEN(s) / 8 == (w) && !IS_FREE(s) && !IS_DONE(s))
#define IS_MORTAL(w) ((w) < MORTALS)
#define HAS_ENDED(s, w) (IS_MORTAL(w) && ((s) & ENDED(w)) != 0)
#define FREED(s) ((s) - TOKEN(s))

/* The primary: log[0] is what a majority has, LOCAL what a local read finds. The deposed one, if there is one, learns nothing more. */
byte log[ROOM], newest;
byte old_kept, old_newest;
bit has_old;
#define KEPT log[0]
#define LOCAL log[newest]

/* Of each client: how many writes a majority still has to get before it has the client's newest; whether that client will not hear of
   it, because the primary was deposed; whether the newest time it was told lies after what the deposed primary's majority has. */
byte distance[CLIENTS];
bit torn[CLIENTS], is_new[CLIENTS];

/* Where a worker is: it has been answered a claim from HOLD on. */
#define IDLE 0
#define PICKED 1
#define CLAIMING 2
#define CHECK 3
#define UNDO 4
#define DOUBT 5
#define AUDITING 6
#define GIVE 7
#define GONE 8
#define HOLD 9
#define SETTLING 10
#define ASK 11
#define ASKED 12

/* Where the rescuer is. */
#define SEEK 0
#define END 1
#define ENDING 2
#define LOOK 3
#define MOVE 4

byte stage[CLIENTS], token[CLIENTS];
byte late[WORKERS];                 /* a claim that lands later, if the job is free by then */
bit came_late[WORKERS];             /* the claim that waits for its answer landed after the end of its lease */
byte faults = FAULTS, failovers = FAILOVERS;
byte i, name;

/* What was answered, and must be true for ever. */
bit was_told_done, was_told_ended[WORKERS];

/* --- guards, each with what its mutants put in its place */

#if defined(READ_BACK_LOCAL)
#define READ_BACK LOCAL
#define OLD_READ_BACK old_newest
#define CAN_READ_BACK true
#define CAN_READ_OLD_BACK has_old
#elif defined(READ_BACK_WITHOUT_TIME)
#define READ_BACK KEPT
#define OLD_READ_BACK old_kept
#define CAN_READ_BACK true
#define CAN_READ_OLD_BACK has_old
#else
#define READ_BACK KEPT
#define OLD_READ_BACK old_kept
#define CAN_READ_BACK (distance[w] == 0)
#define CAN_READ_OLD_BACK (has_old && !is_new[w])
#endif

#if defined(LEASE_NOT_CHECKED)
#define MAY_PICK(s) IS_FREE(s)
#define IS_OPEN(s) true
#elif defined(LEASE_CHECKED_ONLY_BEFORE)
#define MAY_PICK(s) (IS_FREE(s) && !HAS_ENDED(LOCAL, w))
#define IS_OPEN(s) true
#else
#define MAY_PICK(s) (IS_FREE(s) && !HAS_ENDED(s, w))
#define IS_OPEN(s) (!HAS_ENDED(s, w))
#endif

#if defined(READS_JOB_BACK)
#define IS_CLAIM_IN(s) IS_OF(s, token[w])
#else
#define IS_CLAIM_IN(s) true
#endif

#if defined(ENDED_READ_LOCALLY)
#define SEEN LOCAL
#define OLD_SEEN old_newest
#define MAY_MOVE(s) IS_OF(s, token[r])
#elif defined(RESCUE_WITHOUT_ENDING)
#define SEEN KEPT
#define OLD_SEEN old_kept
#define MAY_MOVE(s) IS_OF(s, token[r])
#else
#define SEEN KEPT
#define OLD_SEEN old_kept
#define MAY_MOVE(s) (IS_OF(s, token[r]) && HAS_ENDED(s, whom))
#endif

/* --- the members */

inline append(c, state) { log[newest + 1] = state; newest++; distance[c] = newest; torn[c] = 0 }

/* A majority has the write: the client is told, with the time. */
#define IS_ACKNOWLEDGED(c) (distance[c] == 0 && !torn[c])
inline be_told(c) { is_new[c] = has_old }
inline be_torn(c) { torn[c] = 0; distance[c] = 0; is_new[c] = 0 }

inline land(w) {
    if :: IS_FREE(LOCAL) -> newest++; log[newest] = log[newest - 1] + late[w] :: else fi;
    late[w] = 0
}

active proctype Members() {
end:
    do
    :: atomic { newest > 0 ->                                               /* a majority gets the next write */
        for (i : 1 .. newest) { log[i - 1] = log[i] }
        log[newest] = 0; newest--;
        for (i : 0 .. CLIENTS - 1) { distance[i] = (distance[i] > 0 -> distance[i] - 1 : 0) }
        i = 0 }
    :: atomic { failovers > 0 && newest <= LOG -> failovers--;
        has_old = 1; old_kept = KEPT; old_newest = LOCAL;
        name = 0;
        do :: name < newest -> name++ :: break od;                          /* any part of the log */
        for (i : 0 .. CLIENTS - 1) {
            torn[i] = (torn[i] || distance[i] > 0); is_new[i] = (distance[i] > 0);
            distance[i] = (distance[i] > name -> name + 1 : distance[i])
        }
        for (i : name + 1 .. ROOM - 1) { log[i] = (i == name + 1 -> log[name] : 0) }
        newest = name + 1; i = 0; name = 0;
        assert(!was_told_done || IS_DONE(LOCAL));                           /* S10: what was answered as settled stays settled */
        for (i : 0 .. MORTALS - 1) {
            assert(!was_told_ended[i] || HAS_ENDED(LOCAL, i))               /* S5: a lease that was answered as ended stays so */
        }
        i = 0 }
    :: atomic { has_old ->                                                  /* the deposed one joins the new one */
        has_old = 0; old_kept = 0; old_newest = 0;
        for (i : 0 .. CLIENTS - 1) { is_new[i] = 0 }
        i = 0 }
    :: atomic { late[0] && newest < LOG -> land(0) }
    :: atomic { late[1] && newest < LOG -> land(1) }
#if WORKERS > 2
    :: atomic { late[2] && newest < LOG -> land(2) }
#endif
    od
}

/* --- workers */

#define IS_NAMED(t) (TOKEN(log[0]) == (t) || TOKEN(log[1]) == (t) || TOKEN(log[2]) == (t) || TOKEN(log[3]) == (t) \
    || TOKEN(log[4]) == (t) || TOKEN(old_kept) == (t) || TOKEN(old_newest) == (t) || late[w] == (t) || token[RESCUER] == (t))

inline new_token() {
    name = NEW_TOKEN(w, 1);
    do :: IS_NAMED(name) -> name++ :: else -> break od;
    assert(name <= NEW_TOKEN(w, NONCES))
}

inline doubt() { be_torn(w); token[w] = 0; came_late[w] = 0; stage[w] = DOUBT }

inline hold() {
    assert(!came_late[w]);                                                  /* S5: no claim is answered that landed after the end */
    for (i : 0 .. WORKERS - 1) {
        assert(i == w || stage[i] < HOLD || HAS_ENDED(LOCAL, i) || HAS_ENDED(LOCAL, w)) /* S1: a job has one owner whose lease is open */
    }
    i = 0; stage[w] = HOLD
}

inline read_back(state) {
    if
    :: !IS_CLAIM_IN(state) -> doubt()
    :: IS_CLAIM_IN(state) && IS_OPEN(state) -> hold()
    :: else -> came_late[w] = 0; stage[w] = UNDO
    fi
}

inline hear_done() {
    was_told_done = 1; token[w] = 0; stage[w] = IDLE;
    assert(IS_DONE(LOCAL))                                                  /* S10: what is answered as settled is settled */
}

inline hear_lost() {
    assert(TOKEN(LOCAL) != token[w]);                                       /* S10: who is told that a job is lost has lost it */
    token[w] = 0; stage[w] = IDLE
}

inline hear_nothing_matched() {
#ifdef LOST_WITHOUT_BARRIER
    hear_lost()
#else
    stage[w] = ASK
#endif
}

inline leave() { be_torn(w); token[w] = 0; came_late[w] = 0; stage[w] = GONE }

proctype Worker(byte w) {
end:
    do
    /* The claim: pick, write under a nonce, read back. */
    :: atomic { stage[w] == IDLE && MAY_PICK(LOCAL) -> stage[w] = PICKED }
    :: atomic { stage[w] == IDLE && has_old && MAY_PICK(old_newest) -> stage[w] = PICKED }
    :: atomic { stage[w] == PICKED && newest < LOG ->
        if
        :: IS_FREE(LOCAL) ->
            new_token(); token[w] = name; name = 0; came_late[w] = HAS_ENDED(LOCAL, w);
            append(w, LOCAL + token[w]); stage[w] = CLAIMING
        :: else -> stage[w] = IDLE
        fi }
    :: atomic { stage[w] == PICKED && has_old ->
        if
        :: IS_FREE(old_newest) ->
            new_token(); old_newest = old_newest + name;
#ifdef CLAIM_BY_ONE
            token[w] = name; is_new[w] = 1; stage[w] = CHECK;
#else
            doubt();
#endif
            name = 0
        :: else -> stage[w] = IDLE
        fi }
    :: atomic { stage[w] == PICKED && faults > 0 && !late[w] -> faults--; new_token();
        if :: late[w] = name :: true fi;
        name = 0; doubt() }
#ifdef CLAIM_BY_ONE
    :: atomic { stage[w] == CLAIMING -> be_told(w); torn[w] = 0; stage[w] = CHECK }
#else
    :: atomic { stage[w] == CLAIMING && IS_ACKNOWLEDGED(w) -> be_told(w); stage[w] = CHECK }
#endif
    :: atomic { stage[w] == CLAIMING && torn[w] -> doubt() }
    :: atomic { (stage[w] == CLAIMING || stage[w] == CHECK) && faults > 0 -> faults--; doubt() }
    :: atomic { stage[w] == CHECK && CAN_READ_BACK -> read_back(READ_BACK) }
    :: atomic { stage[w] == CHECK && CAN_READ_OLD_BACK -> read_back(OLD_READ_BACK) }
    :: atomic { stage[w] == UNDO && newest < LOG ->
        if :: IS_OF(LOCAL, token[w]) -> append(w, FREED(LOCAL)) :: else fi;
        leave() }

    /* What the store thinks we hold, and we were never told, goes back. */
#ifndef NO_AUDIT
    :: atomic { stage[w] == IDLE && IS_HELD_BY(KEPT, w) -> stage[w] = DOUBT }
#endif
    :: atomic { stage[w] == DOUBT && newest < LOG -> append(w, LOCAL); stage[w] = AUDITING }
    :: atomic { stage[w] == AUDITING && torn[w] -> doubt() }
    :: atomic { stage[w] == AUDITING && IS_ACKNOWLEDGED(w) ->
        be_told(w);
        if :: IS_HELD_BY(KEPT, w) -> token[w] = TOKEN(KEPT); stage[w] = GIVE :: else -> stage[w] = IDLE fi }
    :: atomic { stage[w] == GIVE && newest < LOG ->
        if :: IS_OF(LOCAL, token[w]) -> append(w, FREED(LOCAL)) :: else fi;
        be_torn(w); token[w] = 0; stage[w] = IDLE }

    /* The settle. "No" is believed after a barrier only. */
    :: atomic { stage[w] == HOLD && newest < LOG ->
        if
        :: IS_OF(LOCAL, token[w]) ->
            append(w, LOCAL + DONE); stage[w] = SETTLING
        :: else -> hear_nothing_matched()
        fi }
    :: atomic { stage[w] == HOLD && has_old ->
        if
        :: IS_OF(old_newest, token[w]) ->
            old_newest = old_newest + DONE;
#ifdef SETTLE_BY_ONE
            hear_done();
#endif
        :: else -> hear_nothing_matched()
        fi }
#ifdef SETTLE_BY_ONE
    :: atomic { stage[w] == SETTLING -> be_torn(w); hear_done() }
#else
    :: atomic { stage[w] == SETTLING && IS_ACKNOWLEDGED(w) -> be_told(w); hear_done() }
#endif
    :: atomic { stage[w] == SETTLING && torn[w] -> be_torn(w); stage[w] = HOLD }
    :: atomic { stage[w] == SETTLING && faults > 0 -> faults--; be_torn(w); stage[w] = HOLD }
    :: atomic { stage[w] == ASK && newest < LOG -> append(w, LOCAL); stage[w] = ASKED }         /* the barrier */
    :: atomic { stage[w] == ASKED && torn[w] -> be_torn(w); stage[w] = ASK }
    :: atomic { stage[w] == ASKED && IS_ACKNOWLEDGED(w) ->
        be_told(w);
        if
        :: IS_OF(KEPT, token[w]) -> stage[w] = HOLD
        :: TOKEN(KEPT) == token[w] && IS_DONE(KEPT) -> hear_done()
        :: else -> hear_lost()
        fi }

    :: atomic { IS_MORTAL(w) && stage[w] != GONE && faults > 0 -> faults--; leave() }           /* kill -9 */
    od
}

/* --- the rescuer */

inline seek() { be_torn(r); token[r] = 0; whom = 0; stage[r] = SEEK }

/* Which of its jobs an ended lease still holds. */
inline look(state) {
    if :: IS_HELD_BY(state, whom) -> token[r] = TOKEN(state); stage[r] = MOVE :: else -> seek() fi
}

inline hear_ended() {
    was_told_ended[whom] = 1; stage[r] = LOOK;
    assert(HAS_ENDED(LOCAL, whom))                                          /* S5: what is answered as ended has ended */
}

#ifdef RESCUE_WITHOUT_ENDING
#define JUDGED LOOK
#else
#define JUDGED END
#endif

#ifdef ENDED_LEASES_FORGOTTEN
#define IS_REMEMBERED false
#else
#define IS_REMEMBERED (stage[r] == SEEK)
#endif

#define CONSIDER(v) \
    :: atomic { stage[r] == SEEK && !HAS_ENDED(KEPT, v) -> whom = v; stage[r] = JUDGED } \
    :: atomic { IS_REMEMBERED && HAS_ENDED(SEEN, v) && IS_HELD_BY(SEEN, v) -> whom = v; look(SEEN) } \
    :: atomic { IS_REMEMBERED && has_old && HAS_ENDED(OLD_SEEN, v) && IS_HELD_BY(OLD_SEEN, v) -> whom = v; look(OLD_SEEN) }

proctype Rescuer(byte r) {
    byte whom;
end:
    do
    CONSIDER(0)
#if WORKERS > 2
    CONSIDER(1)
#endif
    :: atomic { stage[r] == END && newest < LOG ->
        if
        :: !HAS_ENDED(LOCAL, whom) -> append(r, LOCAL + ENDED(whom)); stage[r] = ENDING
        :: else -> seek()
        fi }
    :: atomic { stage[r] == END && has_old && !HAS_ENDED(old_newest, whom) ->
        old_newest = old_newest + ENDED(whom);
#ifdef END_BY_ONE
        hear_ended() }
    :: atomic { stage[r] == ENDING -> be_told(r); torn[r] = 0; hear_ended() }
#else
        seek() }
    :: atomic { stage[r] == ENDING && IS_ACKNOWLEDGED(r) -> be_told(r); hear_ended() }
#endif
    :: atomic { stage[r] == ENDING && torn[r] -> seek() }
    :: atomic { stage[r] != SEEK && faults > 0 -> faults--; seek() }
    :: atomic { stage[r] == LOOK && distance[r] == 0 -> look(KEPT) }
    :: atomic { stage[r] == LOOK && has_old && !is_new[r] -> look(old_kept) }
    :: atomic { stage[r] == MOVE && newest < LOG ->
        if
        :: MAY_MOVE(LOCAL) ->
            assert(HAS_ENDED(LOCAL, whom));                                 /* S5: no claim of an open lease is moved */
            append(r, FREED(LOCAL))
        :: else
        fi;
        seek() }
    od
}

/* When nobody has anything left to do. */
active proctype Watch() {
    timeout -> assert(IS_DONE(KEPT))                                        /* S6, L2: no job is lost, none is stuck */
}

init {
    atomic {
        for (i : 0 .. WORKERS - 1) { run Worker(i) }
        run Rescuer(RESCUER);
        i = 0
    }
}
