/* One unfinished job per unique key, and one job per call to enqueue: clients that ask for the same key and send again what
   was not answered, workers, an operator who cancels, deletes and asks for jobs once more.

   Each client enqueues one job by one call, and both bear its number. How a job is owned is ownership.pml's; here it is
   waiting, somebody's, or finished. The name of a mutant as -D takes one guard out. */

#ifndef FAULTS
#define FAULTS 2
#endif
#define JOBS 3
#define MOVES 2 /* of an operator's, and as many attempts that fail */

#define ABSENT 0
#define PENDING 1
#define ACTIVE 2
#define FINISHED 3
#define IS_UNFINISHED(j) (place[j] == PENDING || place[j] == ACTIVE)

/* What a call is told: that its job was written (itself), or which job has its key. */
#define UNANSWERED 0

byte place[JOBS + 1];
byte holder;                        /* of the key: a job, or 0 */
byte receipt[JOBS + 1];             /* by call: what its first copy was told */

byte told[JOBS + 1], inserted[JOBS + 1];     /* what the assertions remember */
bit was_deleted[JOBS + 1];
byte faults = FAULTS, retries = MOVES, orders = MOVES;
byte copies[JOBS + 1];
byte answer, i;
bit is_applied, is_heard, is_copied;

#if defined(ENQUEUE_WITHOUT_RECEIPT)
#define IS_COPY(j) (place[j] == PENDING)
#elif defined(ID_INSTEAD_OF_RECEIPT)
#define IS_COPY(j) (place[j] != ABSENT)
#else
#define IS_COPY(j) (receipt[j] != UNANSWERED)
#endif

#if defined(REOPEN_IGNORES_KEY)
#define MAY_REOPEN(j) true
#else
#define MAY_REOPEN(j) (holder == 0)
#endif

#if defined(KEY_FREED_BY_NAME)
#define HAS_KEY(j) true
#else
#define HAS_KEY(j) (holder == j)
#endif

inline check() {
    d_step {
        for (i : 1 .. JOBS) { assert(IS_UNFINISHED(i) == (holder == i)) } /* S11: one unfinished job, no other, has the key */
        i = 0; answer = 0; is_applied = 0; is_heard = 0; is_copied = 0
    }
}

inline free_key(j) { if :: HAS_KEY(j) -> holder = 0 :: else fi }

inline insert(j) {
    assert(inserted[j] == 0);                               /* S10: a call writes its job once */
    inserted[j]++; place[j] = PENDING; holder = j; answer = j
}

inline enqueue(j) {
    if
    :: IS_COPY(j) -> answer = (receipt[j] == UNANSWERED -> j : receipt[j])
    :: else ->
        if
        :: holder == 0 -> insert(j); receipt[j] = j
        :: else -> answer = holder;
#ifndef DUPLICATE_WITHOUT_RECEIPT
            receipt[j] = holder
#endif
        fi
    fi;
    tell(j)
}

inline tell(j) {
    assert(told[j] == UNANSWERED || told[j] == answer);     /* S10: every copy of a call is told the same */
    told[j] = answer
}

/* Copies arrive at any later moment. */
proctype Network(byte j) {
end:
    do
    :: atomic { copies[j] > 0 -> copies[j]--; enqueue(j); check() }
    od
}

proctype Client(byte j) {
    bit is_over;
#ifdef KEY_LOOKED_UP_EARLIER
    byte found;
#endif
    do
    :: is_over -> break
#if defined(KEY_LOOKED_UP_EARLIER)
    :: atomic { !is_over -> found = holder }
        atomic { if :: found == 0 -> insert(j) :: else -> answer = found fi; receipt[j] = answer; tell(j); is_over = 1; check() }
#else
#if defined(RECEIPT_APART)
    :: atomic { !is_over && receipt[j] == UNANSWERED ->
        if :: holder == 0 -> insert(j) :: else -> answer = holder; receipt[j] = holder fi;
        tell(j); check() }
        if
        :: atomic { faults > 0 -> faults-- }
        :: atomic { receipt[j] = told[j]; is_over = 1 }
        fi
#endif
    :: atomic { !is_over ->
        is_heard = 1; is_applied = 1;
        if
        :: true
        :: faults > 0 -> faults--; is_heard = 0
        :: faults > 0 -> faults--; is_heard = 0; is_applied = 0
        :: faults > 0 -> faults--; is_heard = 0; is_applied = 0; is_copied = 1
        :: faults > 0 -> faults--; is_copied = 1
        fi;
        if :: is_applied -> enqueue(j) :: else fi;
        if :: is_copied -> copies[j]++ :: else fi;
        is_over = is_heard;
        check() }
#endif
    od
}

proctype Worker(byte j) {
end:
    do
    :: atomic { place[j] == PENDING -> place[j] = ACTIVE }
    :: atomic { place[j] == ACTIVE -> place[j] = FINISHED;
#ifndef KEY_KEPT_AT_END
        free_key(j);
#endif
        check() }
    :: atomic { place[j] == ACTIVE && retries > 0 -> retries--; place[j] = PENDING;
#ifdef KEY_FREED_BY_RETRY
        free_key(j);
#endif
        check() }
    od
}

proctype Operator(byte j) {
end:
    do
    :: atomic { orders > 0 && place[j] == PENDING -> orders--; place[j] = FINISHED;         /* cancel */
#ifndef KEY_KEPT_BY_CANCEL
        free_key(j);
#endif
        check() }
    :: atomic { orders > 0 && place[j] == FINISHED -> orders--;                             /* ask for it once more */
        if :: MAY_REOPEN(j) -> place[j] = PENDING; holder = j :: else fi;
        check() }
    :: atomic { orders > 0 && (place[j] == PENDING || place[j] == FINISHED) -> orders--;    /* delete */
        free_key(j);
        place[j] = ABSENT; was_deleted[j] = 1;
        check() }
    od
}

/* When nobody has anything left to do. */
active proctype Watch() {
    timeout ->
    atomic {
        for (i : 1 .. JOBS) {
            assert(told[i] != UNANSWERED);                                      /* L2: every call was answered */
            assert(told[i] != i || place[i] == FINISHED || was_deleted[i])      /* S6: no job is lost */
        }
        assert(holder == 0);                                                    /* S11: the key is free again */
        i = 0
    }
}

init {
    atomic {
        byte p;
        for (p : 1 .. JOBS) { run Network(p); run Client(p); run Worker(p); run Operator(p) }
        p = 0
    }
}
