/* How verbs claim, type, clear and give back virtual functions: one atomic step for each thing that somebody else can see or
 * that a decision rests on, in the order of provider/host/lifecycle. See README.md.
 *
 * Instances A and B are 0 and 1; a verb is an explicit program counter pc[p], so that SIGKILL is one transition: "no verb
 * any more, its locks gone"; the children it started may live on.
 *
 * ENVIRONMENT: what may happen beside the verbs (0 = it does not) */
#ifndef NV
#define NV 1      /* virtual functions: 1 or 2 */
#endif
#ifndef NP
#define NP 2      /* verbs at once: 2 or 3 */
#endif
#ifndef SEQ
#define SEQ 0     /* 1: a verb begins only when no other runs; children of killed ones may */
#endif
#ifndef TYB
#define TYB 1     /* type of instance B; A has 1, and the same type is the hardest to tell apart */
#endif
#ifndef CRASH
#define CRASH 1   /* SIGKILL of a verb at any step */
#endif
#ifndef DRV
#define DRV 1     /* the driver may refuse any write */
#endif
#ifndef REBOOT
#define REBOOT 0  /* power cut at any step: /run is lost, types are 0, VMs dead, what a verb is about to fsync is old or new.
                     2: so is what killed verbs had not fsynced yet */
#endif
#ifndef SLOW
#define SLOW 1    /* 1: a verb may be slower than the grace. 0: the grace expires only while no verb runs */
#endif
#ifndef FOREIGN
#define FOREIGN 0 /* 1: somebody types VFs that read 0, clears what he typed, holds VFs open. 2: clears what we typed, too.
                     3: as 1, but types no VF that a claim of this boot names. 4: as 3, or comes between such a claim and its write */
#endif
#ifndef FT
#define FT 2      /* the type that he writes: 2 is neither A's nor (by default) B's */
#endif
#ifndef STALE
#define STALE 0   /* a record of A with an old claim of this boot comes back, once */
#endif
#ifndef LOST
#define LOST 0    /* a record of A is removed by hand, once */
#endif
#ifndef LATEW
#define LATEW 0   /* the child that writes to sysfs outlives its verb, or its deadline */
#endif
#ifndef LATEU
#define LATEU 0   /* 1: the child that asks systemd for the unit outlives its verb. 2: the request is a job in systemd's queue */
#endif
#ifndef RECLAIM
#define RECLAIM 0 /* a create may clear types of ours that nobody claims to make room for its profile, on other VFs too */
#endif
#ifndef REPAIR
#define REPAIR 1  /* at the end, 1: one verb of any kind may be tried before the reconcile. 0: only the reconcile */
#endif

/* MUTATIONS: each takes one rule out of the product */
#ifndef M_SAVEAFTER
#define M_SAVEAFTER 0     /* the claim is saved after the type is written */
#endif
#ifndef M_HOSTLOCK
#define M_HOSTLOCK 0      /* no host lock: listing and saving the claim are two steps */
#endif
#ifndef M_MARKAFTER
#define M_MARKAFTER 0     /* the mark is written after the type */
#endif
#ifndef M_CLAIMFIRST
#define M_CLAIMFIRST 0    /* a drop removes the claim first, then the mark */
#endif
#ifndef M_ANYMARK
#define M_ANYMARK 0       /* a drop removes the mark, whomever it names */
#endif
#ifndef M_KEEPMARK
#define M_KEEPMARK 0      /* a drop of what is not ours any more leaves our mark */
#endif
#ifndef M_VLOCK
#define M_VLOCK 0         /* no locks of VFs */
#endif
#ifndef M_VINHERIT
#define M_VINHERIT 0      /* the writing child does not inherit the VF's lock */
#endif
#ifndef M_REUSE
#define M_REUSE 0         /* a repeated create uses its own typed VF without having had the VF's lock */
#endif
#ifndef M_REUSEANY
#define M_REUSEANY 0      /* a repeated create uses the VF of its claim if the type fits, whomever the mark names */
#endif
#ifndef M_UINHERIT
#define M_UINHERIT 0      /* the child that asks systemd does not inherit the instance's lock */
#endif
#ifndef M_NOJOB
#define M_NOJOB 0         /* a queued job is no witness of life */
#endif
#ifndef M_REREAD
#define M_REREAD 0        /* type and mark are not read again right before a 0 is written */
#endif
#ifndef M_NOMARK
#define M_NOMARK 0        /* release does not ask the mark */
#endif
#ifndef M_NOTYPE
#define M_NOTYPE 0        /* release does not ask whether the type is the claim's */
#endif
#ifndef M_NOBOOT
#define M_NOBOOT 0        /* release does not ask of which boot the claim is */
#endif
#ifndef M_NOGUARD
#define M_NOGUARD 0       /* release does not ask the other records */
#endif
#ifndef M_NOSCAN
#define M_NOSCAN 0        /* open handles are not looked for */
#endif
#ifndef M_NOLOCKW
#define M_NOLOCKW 0       /* the held lock of another instance is no witness */
#endif
#ifndef M_LOCKLIVE
#define M_LOCKLIVE 0      /* the held lock of another instance shows that its claim is live */
#endif
#ifndef M_DEADLINE
#define M_DEADLINE 0      /* a write that has not ended at its deadline is a failed write */
#endif
#ifndef M_UNANSWERED
#define M_UNANSWERED 0    /* a start that systemd has not answered is rolled back */
#endif
#ifndef M_MARKGUARD
#define M_MARKGUARD 0     /* another instance's mark does not keep a dirty VF from being reset */
#endif
#ifndef M_LEFTOVERS
#define M_LEFTOVERS 0     /* a delete does not look for VFs that are marked for its instance */
#endif
#ifndef M_LOOKONLY
#define M_LOOKONLY 0      /* reconcile looks whether the instance's lock is held, and does not take it */
#endif
#ifndef M_SWEEP
#define M_SWEEP 0         /* the sweep of marks takes the VF's lock only, not the instance's, and asks nobody */
#endif
#ifndef M_STARTANY
#define M_STARTANY 0      /* reconcile starts records that are incomplete, retained or being deleted */
#endif
#ifndef M_NOFLAG
#define M_NOFLAG 0        /* a delete does not save that it has begun */
#endif
#ifndef M_FORGET
#define M_FORGET 0        /* a rollback that cannot release removes the record */
#endif
#ifndef M_DESIRED
#define M_DESIRED 0       /* a start that fails without a claim does not put back what was desired */
#endif
#ifndef M_ERRNO
#define M_ERRNO 0         /* a type that reads as wanted is ours, although the driver refused it because there was one already */
#endif

/* PROPERTIES: the number is in the text of the failed assertion and tells which it was; 0 = not looked at */
#ifndef P_S1
#define P_S1 11     /* no write to a VF that a live VM owns or that a VM holds open */
#endif
#ifndef P_S2
#define P_S2 12     /* two claims of this boot never name one VF */
#endif
#ifndef P_S3
#define P_S3 13     /* a type is written under a durable claim; a claim goes when the VF is not typed by us */
#endif
#ifndef P_S7
#define P_S7 17     /* no write to a VF that was somebody else's at our last look */
#endif
#ifndef P_MARK
#define P_MARK 21   /* what we typed has our mark */
#endif
#ifndef P_DEL
#define P_DEL 22    /* a delete that says "done" leaves no VM and no VF typed for its instance */
#endif
#ifndef P_OWN
#define P_OWN 23    /* a VM opens only the VF that its record claims, typed for it */
#endif
#ifndef P_L1
#define P_L1 24     /* after faults, a repeated verb or a reconcile leaves nothing over */
#endif
#ifndef P_SMARK
#define P_SMARK 25  /* who gives a VF up leaves no mark of his own on it */
#endif
#ifndef P_RUN
#define P_RUN 26    /* reconcile starts what should run, and nothing else */
#endif
#ifndef P_DES
#define P_DES 27    /* a failed start leaves desired what was desired */
#endif

#define NVX (NV+1)
#define TY(i) ((i)==0 -> 1 : TYB)
#define FOR 3                        /* who typed: somebody else */
#define ORPH 9                       /* lock held by a child whose verb is gone */

/* ------------------------------------------------------------------ state */
/* Records: r_ is what a reader sees, d_ what a power cut leaves. ph: 0 none, 2 preparing or claimed, 3 complete. What a flag
 * makes meaningless is kept at one value: a deleting record is complete and not retained, a retained one is not complete, and only a
 * complete one that is not being deleted has something desired. */
byte r_ph[2]; byte r_vf[2]; bit r_bt[2]; bit r_des[2]; bit r_del[2]; bit r_ret[2];
bit yng[2];                          /* the claim is younger than the grace; asked only where two claims may meet */
#if REBOOT
byte d_ph[2]; byte d_vf[2]; bit d_bt[2]; bit d_des[2]; bit d_del[2]; bit d_ret[2];
#define DVF(i) d_vf[i]
#define DBT(i) d_bt[i]
#else
#define DVF(i) r_vf[i]
#define DBT(i) r_bt[i]
#endif
byte ty[NVX]; byte tyr[NVX];         /* type; in truth: who typed it (0 nobody, A=1, B=2, FOR) */
byte mk[NVX];                        /* mark: 0, A=1, B=2; its type is TY(mk-1) */
byte fop[NVX];                       /* somebody else has it open */
byte vm[2]; byte vmv[2];             /* 0 dead, 1 unit up and VF not open yet, 2 running, 3 gone but the handle lingers; its VF */
byte il[2];                          /* instance locks: 0, p+1, ORPH */
byte vl[NVX];                        /* VF locks */
#if LATEW
byte c_st[NP]; byte c_x[NP];         /* writing child: 0 none, 1 forked, 2 has the file open, 3 done */
byte o_st; byte o_v; byte o_x; byte o_who; bit o_seen;   /* one such child whose verb is gone */
#endif
#if LATEU
byte oreq[2];                        /* request for the unit whose verb is gone: the VF in its command line */
#endif
#if STALE
bit staled;
#endif
#if LOST
bit lost;
#endif
#if REBOOT || M_NOFLAG
bit begun[2];                        /* in truth: a delete of it has begun */
#define BEGUN(i) begun[i]
#define ISBEGUN(i) begun[i]=1
#define NOTBEGUN(i) begun[i]=0
#else
#define BEGUN(i) r_del[i]
#define ISBEGUN(i) skip
#define NOTBEGUN(i) skip
#endif
byte fin;                            /* 0 anything goes, 1 faults end, 2 repair by a verb, 3 settled, 4 reconcile, 5 6 deletes, 7 end */
byte ri; byte rv;                    /* instance and verb of the repair */
/* Verbs */
byte pc[NP]; byte me[NP]; byte vv[NP];
byte vb[NP];                         /* 1 create, update or start; 2 stop; 3 delete; 4 reconcile */
byte ret[NP];                        /* who asked for the release */
byte wret[NP];                       /* step after a save or a write */
byte tr[NP];                         /* VFs tried in vain, as bits */
byte rc[NP];                         /* 1 makes room by clearing types of ours, 2 has done so */
bit er[NP]; bit xe;                  /* the driver refused with EPERM */
bit seen[NP];                        /* in truth: somebody else had typed the VF when we last looked */
#if FOREIGN
#define SEE(p) seen[p]=(tyr[vv[p]]==FOR)
#define UNSEE(p) seen[p]=0
#else
#define SEE(p) skip
#define UNSEE(p) skip
#endif
bit bc[NP]; bit bd[NP]; bit nc[NP];  /* the record was complete before, and desired; the claim is new */

#define IDLE 0
#define W1 1        /* waits for the writing child */
#define SYNC 2      /* record: fsync */
#define V_BEGIN 3   /* a verb begins */
#define V_LOOK 4
#define E_LOOK 10   /* ensure: read the record, admit the asker */
#define E_LEFT 11   /* ensure: anything left of an earlier one? then a new record */
#define E_POWER 12  /* power on: does it live? is its claim there? */
#define E_REUSE 13  /* power on: the claim's own typed VF, under its lock */
#define E_WAIT 14   /* boot: wait for the monitor */
#define E_OK 15     /* ensure: answer */
#define C_CHOOSE 20 /* allocate: list, choose, lock the VF, save the claim */
#define C_SAVE 21
#define C_LOOK 22   /* allocate: read the type of the chosen VF */
#define C_SCAN 23   /* allocate: it is dirty: handles, type and mark again, then 0 */
#define C_RST 24    /* allocate: read back 0 */
#define C_MARK 25   /* allocate: write the mark */
#define C_WT 26     /* allocate: write the type */
#define C_MARKL 27
#define C_RB 28     /* allocate: read the type back */
#define C_GIVE 29   /* allocate: save the record without the claim */
#define C_NEXT 30   /* allocate: VF lock off, next VF or none */
#define O_LOOK 74   /* make room: another VF, under its lock: nobody's claim, ours to reset? */
#define O_SCAN 75   /* make room: handles, type and mark again, then 0 */
#define O_RST 76    /* make room: read back 0 */
#define O_DONE 77
#define C_START 31  /* boot: ask systemd for the unit */
#define C_STARTW 32 /* boot: wait for systemd's answer */
#define B_BEGIN 34  /* roll back: what is there to take back? */
#define B_STOP 35   /* roll back: stop the VM */
#define B_DONE 36   /* roll back: save what was before, or remove the record */
#define B_KEEP 37   /* roll back failed: keep it, as a retained record if it was none before */
#define P_LOOK 39   /* power off: read the record */
#define P_SAVE 40   /* power off: save what is desired */
#define P_STOP 41   /* power off: stop the VM */
#define P_DONE 42
#define P_FULL 43   /* power off: save it as complete */
#define D_LOOK 44   /* delete: read the record */
#define D_SAVE 45   /* delete: save that it has begun */
#define D_STOP 46   /* delete: stop the VM */
#define D_MARK 47   /* delete: VFs that are marked for it */
#define D_GONE 48   /* delete: remove the record */
#define D_DONE 49   /* delete: answer */
#define D_BEGUN 70
#define R_TAKE 50   /* release: take the VF's lock */
#define R_LOOK 51   /* release: own VM, stuck writer, type, boot, mark */
#define R_ASK 52    /* release: the other records */
#define R_SCAN 53   /* release: handles, then type and mark again */
#define R_W 54      /* release: write 0 */
#define R_RB 55     /* release: read back */
#define R_MARK 56   /* release: remove the mark */
#define R_SAVE 57   /* release: save the record without the claim */
#define R_AGAIN 71  /* release: again from its first step */
#define R_DROP 72
#define R_MARKL 73
#define R_OK 58
#define R_FAIL 59
#define Q_I 60      /* reconcile: lock an instance, read its record again: does it live? */
#define Q_RET 61    /* reconcile: save it as retained */
#define Q_NEXT 62
#define Q_V 63      /* reconcile: a mark on a VF? */
#define Q_VCHK 64   /* reconcile: lock its instance: does its record claim the VF? */
#define Q_VNEXT 65
#define Q_S 66      /* reconcile: lock an instance: is it due to be started? */
#define Q_SNEXT 68
/* who asked for the release */
#define BEFORE_START 1
#define ROLLBACK 2
#define POWEROFF 3
#define DELETE 4
#define MARKED 5
#define SETTLE 6
#define SWEEP 7

#define ALIVE(i) (vm[i]==1 || vm[i]==2)
#if LATEU==2 && !M_NOJOB
#define LIVEW(i) (ALIVE(i) || oreq[i]!=0)
#else
#define LIVEW(i) ALIVE(i)
#endif
#define VMOPEN(v) ((vm[0]>=2 && vmv[0]==(v)) || (vm[1]>=2 && vmv[1]==(v)))
#if NP==3
#define ALLIDLE (pc[0]==IDLE && pc[1]==IDLE && pc[2]==IDLE)
#define Q2(p) ((p)==0 -> 1 : 0)
#define Q3(p) ((p)==2 -> 1 : 2)
#else
#define ALLIDLE (pc[0]==IDLE && pc[1]==IDLE)
#define Q2(p) (1-(p))
#define Q3(p) (1-(p))
#endif
#if LATEW
#define OTHERWRITER(v,p) ((o_st==2 && o_v==(v)) || (c_st[Q2(p)]==2 && vv[Q2(p)]==(v)) || (c_st[Q3(p)]==2 && vv[Q3(p)]==(v)))
#define NOCHILD(p) (c_st[p]!=1 && c_st[p]!=2)
#define NOORPHW (o_st==0)
#else
#define OTHERWRITER(v,p) false
#define NOCHILD(p) true
#define NOORPHW true
#endif
#if LATEU
#define NOORPH (NOORPHW && oreq[0]==0 && oreq[1]==0)
#else
#define NOORPH NOORPHW
#endif
#if M_NOSCAN
#define HANDLE(v,p) false
#else
#define HANDLE(v,p) (VMOPEN(v) || fop[v] || OTHERWRITER(v,p))
#endif
#if M_NOLOCKW
#define LOCKW(j,p) false
#else
#define LOCKW(j,p) (il[j]!=0 && il[j]!=(p)+1)
#endif
#define BTOK(i) (M_NOBOOT || r_bt[i]==1)
#define TYPEOK(i,v) (M_NOTYPE || ty[v]==TY(i))
#define MARKOK(i,v) (M_NOMARK || mk[v]==(i)+1)
#define CLAIMED(v,i) (r_vf[1-(i)]==(v) && r_bt[1-(i)]==1)
#define OURS(v) (mk[v]!=0 && ty[v]==TY(mk[v]-1))
/* another instance's mark: its instance is provably dead, or claims another VF */
#define MGUARD(v,p) (M_MARKGUARD || mk[v]==me[p]+1 || (!LIVEW(mk[v]-1) && !LOCKW(mk[v]-1,p)) || \
                     (r_vf[mk[v]-1]!=0 && r_vf[mk[v]-1]!=(v) && r_bt[mk[v]-1]))
#if M_VLOCK
#define VFREE(v,p) true
#define VTAKE(v,p) skip
#define VDROP(v,p) skip
#define VORPH(v) skip
#else
#define VFREE(v,p) (vl[v]==0 || vl[v]==(p)+1)
#define VTAKE(v,p) vl[v]=(p)+1
#define VDROP(v,p) if :: (v)!=0 && vl[v]==(p)+1 -> vl[v]=0 :: else fi
#define VORPH(v) vl[v]=(M_VINHERIT -> 0 : ORPH)
#endif
#define UNCLAIMED1 (!(r_vf[0]==1 && r_bt[0]) && !(r_vf[1]==1 && r_bt[1]))
#if FOREIGN==3
#define FORMAY UNCLAIMED1
#elif FOREIGN==4
#define FORMAY (UNCLAIMED1 || (pc[0]>=C_LOOK && pc[0]<=C_WT) || (pc[1]>=C_LOOK && pc[1]<=C_WT))
#else
#define FORMAY true
#endif
#if NV>1
#define MYMARK(i) (mk[1]==(i)+1 || mk[2]==(i)+1)
#define MARKVF(i) (mk[1]==(i)+1 -> 1 : 2)
#define TYPEDBY(i) (tyr[1]==(i)+1 || tyr[2]==(i)+1)
#define SPARE ((ty[1]==0 && !(r_vf[0]==1 && r_bt[0]) && !(r_vf[1]==1 && r_bt[1])) || \
               (ty[2]==0 && !(r_vf[0]==2 && r_bt[0]) && !(r_vf[1]==2 && r_bt[1])))
#else
#define MYMARK(i) (mk[1]==(i)+1)
#define MARKVF(i) 1
#define TYPEDBY(i) (tyr[1]==(i)+1)
#define SPARE (ty[1]==0 && !(r_vf[0]==1 && r_bt[0]) && !(r_vf[1]==1 && r_bt[1]))
#endif
#define TRIED(v,p) ((tr[p] & (v))!=0)              /* 1 and 2 are their own bits */
#define DUE(i) (r_ph[i]==3 && r_des[i] && !r_del[i] && !r_ret[i])

/* A write as the driver meets it. What is forbidden is asked of the attempt. */
inline dowrite(v,x,who,sn,e) {
  assert(!P_S1 || !(ALIVE(0) && vmv[0]==v));
  assert(!P_S1 || !(ALIVE(1) && vmv[1]==v));
  assert(!P_S1 || !VMOPEN(v));
  assert(!P_S7 || !(x==0 && tyr[v]==FOR && sn));
  assert(!P_S3 || x==0 || (DVF(who)==v && DBT(who)));
  if
  :: x==0 && ty[v]!=0 && !VMOPEN(v) && !fop[v] -> ty[v]=0; tyr[v]=0
  :: x!=0 && ty[v]==0 -> ty[v]=x; tyr[v]=who+1; assert(!P_MARK || mk[v]==who+1)
  :: x==0 && ty[v]==0 -> skip
  :: x!=0 && ty[v]!=0 -> e=1                       /* EPERM: it has a type already */
  :: x==0 && (VMOPEN(v) || fop[v]) && ty[v]!=0 -> skip
  :: DRV && fin==0 -> skip                         /* refuses, no reason given */
  fi
}

inline clearlocals(p) {
  vv[p]=0; ret[p]=0; wret[p]=0; tr[p]=0; rc[p]=0; er[p]=0; seen[p]=0; bc[p]=0; bd[p]=0; nc[p]=0
}
inline goidle(p) {
  if :: il[0]==p+1 -> il[0]=0 :: else fi;
  if :: il[1]==p+1 -> il[1]=0 :: else fi;
  VDROP(1,p);
#if NV>1
  VDROP(2,p);
#endif
  clearlocals(p);
  pc[p]=IDLE; me[p]=0; vb[p]=0
}
inline norecord(i) { r_ph[i]=0; r_vf[i]=0; r_bt[i]=0; r_des[i]=0; r_del[i]=0; r_ret[i]=0; yng[i]=0 }
inline noclaim(i) { r_vf[i]=0; r_bt[i]=0; yng[i]=0 }
inline durable(i) {
#if REBOOT
  d_ph[i]=r_ph[i]; d_vf[i]=r_vf[i]; d_bt[i]=r_bt[i]; d_des[i]=r_des[i]; d_del[i]=r_del[i]; d_ret[i]=r_ret[i]
#else
  skip
#endif
}
/* a save is seen at once, and lasts from its fsync on */
#if REBOOT
#define SAVED(p,nx) wret[p]=nx; pc[p]=SYNC
#else
#define SAVED(p,nx) pc[p]=nx
#endif

inline s2() {
  assert(!P_S2 || !(r_vf[0]!=0 && r_vf[0]==r_vf[1] && r_bt[0] && r_bt[1] && (!STALE || (ALIVE(0) && ALIVE(1)))))
}
inline claimit(p) {
  r_vf[me[p]]=vv[p]; r_bt[me[p]]=1; yng[me[p]]=STALE; nc[p]=bc[p]; r_des[me[p]]=(r_ph[me[p]]==3);
  s2()
}

#if LATEW
#define WRITE(p,x,nx) c_st[p]=1; c_x[p]=x; wret[p]=nx; pc[p]=W1
/* the verb stops waiting for its child, which keeps the VF's lock */
inline orph(k) {
  o_st=c_st[k]; o_v=vv[k]; o_x=c_x[k]; o_who=me[k]; o_seen=seen[k];
  VORPH(vv[k]);
  c_st[k]=0; c_x[k]=0; wret[k]=0
}
#else
#define WRITE(p,x,nx) dowrite(vv[p],x,me[p],seen[p],er[p]); pc[p]=nx
#endif

#define MAYSTOP(i) (ALIVE(i) || (LIVEW(i) && fin==0))
/* One try to end a VM: it ends at once, its handle lingers, or it does not end in time */
inline stopvm(p,failed) {        /* failed: the step after that */
  if
  :: ALIVE(me[p]) -> if :: vm[me[p]]==2 -> vm[me[p]]=3 :: true -> vm[me[p]]=0; vmv[me[p]]=0 fi
  :: fin==0 -> pc[p]=failed
  fi
}

proctype Verb(byte p) {
  do
  :: atomic {
  if
  /* ------------------------------------------------ a verb begins, again and again: takes its lock, reads its record */
  /* A verb on A is process 0 and one on B is process 1: an instance has one verb at a time, and processes are alike. */
  :: pc[p]==IDLE && fin==0 && p<2 && il[p]==0 && (!SEQ || ALLIDLE) -> il[p]=p+1; me[p]=p; if :: vb[p]=1 :: vb[p]=2 :: vb[p]=3 fi; pc[p]=V_LOOK
  :: pc[p]==IDLE && fin==0 && (!SEQ || (ALLIDLE && p==0)) -> me[p]=0; vb[p]=4; pc[p]=Q_I
  :: pc[p]==V_BEGIN -> pc[p]=V_LOOK
#if REBOOT
  :: pc[p]==SYNC -> durable(me[p]); pc[p]=wret[p]; wret[p]=0
#endif

  /* ------------------------------------------------ ensure: create, update, start, adopt */
  :: pc[p]==E_LEFT ->
       if
       :: LIVEW(me[p]) || MYMARK(me[p]) ->                                         /* something is left of one without a record */
          if
          :: goidle(p)                                                             /* a create is refused */
          :: pc[p]=D_STOP                                                          /* an update ends and releases it first */
          fi
       :: else -> NOTBEGUN(me[p]); r_ph[me[p]]=2; SAVED(p,E_POWER)
       fi
  :: pc[p]==E_REUSE ->
       if
       :: !M_REUSE && !VFREE(r_vf[me[p]],p) -> pc[p]=B_BEGIN                       /* a write to it may still come */
       :: (M_REUSE || VFREE(r_vf[me[p]],p)) && ty[r_vf[me[p]]]==TY(me[p]) && (M_REUSEANY || mk[r_vf[me[p]]]==me[p]+1) ->
          vv[p]=r_vf[me[p]]; pc[p]=C_START
       :: (M_REUSE || VFREE(r_vf[me[p]],p)) && !(ty[r_vf[me[p]]]==TY(me[p]) && (M_REUSEANY || mk[r_vf[me[p]]]==me[p]+1)) ->
          ret[p]=BEFORE_START; pc[p]=R_TAKE
       fi

  /* ------------------------------------------------ allocate */
  :: pc[p]==C_CHOOSE ->
       /* Types were read before; what they were counts for nothing once the VF's lock is there, so they are not asked here. */
       if
       :: !CLAIMED(1,me[p]) && VFREE(1,p) && !TRIED(1,p) -> vv[p]=1
#if NV>1
       :: !CLAIMED(2,me[p]) && VFREE(2,p) && !TRIED(2,p) -> vv[p]=2
#endif
       :: else -> vv[p]=0
       fi;
       if
       :: vv[p]==0 -> pc[p]=B_BEGIN                                                /* nothing is free */
       :: vv[p]!=0 ->
#if M_HOSTLOCK
          pc[p]=C_SAVE
#elif M_SAVEAFTER
          VTAKE(vv[p],p); pc[p]=C_LOOK
#else
          /* one step: whoever adds a claim holds the host lock */
          if
          :: RECLAIM && rc[p]==0 && ty[vv[p]]!=0 -> rc[p]=1                        /* types of ours use up what the profile needs */
          :: true -> skip
          fi;
          VTAKE(vv[p],p); claimit(p); SAVED(p,C_LOOK)
#endif
       fi
#if M_HOSTLOCK
  :: pc[p]==C_SAVE -> if :: VFREE(vv[p],p) -> VTAKE(vv[p],p); claimit(p); SAVED(p,C_LOOK) :: else -> pc[p]=B_BEGIN fi
#elif M_SAVEAFTER
  :: pc[p]==C_SAVE -> claimit(p); SAVED(p,C_RB)
#endif
  :: pc[p]==C_LOOK ->
       if
       :: ty[vv[p]]==0 && (mk[vv[p]]==0 -> 1 : MGUARD(vv[p],p)) -> pc[p]=(rc[p]==1 -> O_LOOK : C_MARK)
       :: ty[vv[p]]!=0 && OURS(vv[p]) && MGUARD(vv[p],p) -> pc[p]=C_SCAN
       :: else -> pc[p]=(rc[p]==1 -> O_LOOK : C_GIVE)                              /* dirty and not ours, or its instance may live */
       fi
  :: pc[p]==C_SCAN ->
       if
       :: HANDLE(vv[p],p) || (!M_REREAD && !OURS(vv[p])) -> pc[p]=(rc[p]==1 -> O_LOOK : C_GIVE)
       :: else -> SEE(p); WRITE(p,0,C_RST)
       fi
  :: pc[p]==C_RST ->
       if
       :: ty[vv[p]]==0 -> mk[vv[p]]=0; pc[p]=(rc[p]==1 -> O_LOOK : C_MARK)
       :: else -> pc[p]=(rc[p]==1 -> O_LOOK : C_GIVE)
       fi
#if RECLAIM
  /* the other VF, with the claim and the lock on the chosen one kept: nobody's claim, and ours to reset */
  :: pc[p]==O_LOOK ->
#if NV>1
       UNSEE(p);
       if
       :: vl[3-vv[p]]==0 && r_vf[1-me[p]]!=3-vv[p] && ty[3-vv[p]]!=0 && OURS(3-vv[p]) && MGUARD(3-vv[p],p) -> vv[p]=3-vv[p]; VTAKE(vv[p],p); pc[p]=O_SCAN
       :: else -> pc[p]=C_GIVE
       fi
#else
       pc[p]=C_GIVE
#endif
  :: pc[p]==O_SCAN ->
       if
       :: HANDLE(vv[p],p) || (!M_REREAD && !OURS(vv[p])) -> pc[p]=O_DONE
       :: else -> SEE(p); WRITE(p,0,O_RST)
       fi
  :: pc[p]==O_RST -> if :: ty[vv[p]]==0 -> mk[vv[p]]=0 :: else fi; pc[p]=O_DONE
#endif
  :: pc[p]==C_MARK -> if :: M_MARKAFTER -> skip :: else -> mk[vv[p]]=me[p]+1 fi; pc[p]=C_WT
  :: pc[p]==C_WT ->
#if M_SAVEAFTER
       WRITE(p,TY(me[p]),C_SAVE)
#elif M_MARKAFTER
       WRITE(p,TY(me[p]),C_MARKL)
#else
       WRITE(p,TY(me[p]),C_RB)
#endif
#if M_MARKAFTER
  :: pc[p]==C_MARKL -> mk[vv[p]]=me[p]+1; pc[p]=C_RB
#endif
  :: pc[p]==C_RB ->
       if
       :: ty[vv[p]]==TY(me[p]) && (!er[p] || M_ERRNO) -> VDROP(vv[p],p); pc[p]=C_START
       :: else -> mk[vv[p]]=(mk[vv[p]]==me[p]+1 -> 0 : mk[vv[p]]); pc[p]=C_GIVE
       fi;
       er[p]=0
  :: pc[p]==C_GIVE ->
       assert(!P_S3 || tyr[vv[p]]!=me[p]+1);
       assert(!P_SMARK || mk[vv[p]]!=me[p]+1 || tyr[vv[p]]==me[p]+1);
       noclaim(me[p]); SAVED(p,C_NEXT)

  /* ------------------------------------------------ boot */
#if LATEU
  :: pc[p]==C_STARTW ->
       if
       :: ALIVE(me[p]) -> pc[p]=B_BEGIN                                            /* refused: such a unit is there */
       :: else -> vm[me[p]]=1; vmv[me[p]]=vv[p]; vv[p]=0; pc[p]=E_WAIT
       fi
  :: pc[p]==C_STARTW && oreq[me[p]]==0 && fin==0 ->                                /* not answered in time: the verb ends, and keeps all */
       oreq[me[p]]=vv[p]; vv[p]=0;
       if
       :: M_UNANSWERED -> pc[p]=B_BEGIN
       :: else -> if :: LATEU==1 && !M_UINHERIT -> il[me[p]]=ORPH :: else fi; pc[p]=E_OK
       fi
#else
  :: pc[p]==C_START ->
       assert(vm[me[p]]==0 || vm[me[p]]==3);
       vm[me[p]]=1; vmv[me[p]]=vv[p]; vv[p]=0; pc[p]=E_WAIT
#endif
  :: pc[p]==E_WAIT ->
       if
       :: vm[me[p]]==2 -> r_ph[me[p]]=3; r_des[me[p]]=!r_del[me[p]]; r_ret[me[p]]=0; SAVED(p,E_OK)
       :: !LIVEW(me[p]) -> pc[p]=B_BEGIN                                           /* did not boot */
       :: LIVEW(me[p]) && fin==0 -> pc[p]=B_BEGIN                                  /* no monitor in time */
       fi

  /* ------------------------------------------------ roll back */
  :: (pc[p]==B_STOP || pc[p]==P_STOP || pc[p]==D_STOP) && !LIVEW(me[p]) -> skip
  :: pc[p]==B_STOP && MAYSTOP(me[p]) -> stopvm(p,B_KEEP)
  :: pc[p]==B_DONE ->
       if
       :: bc[p] -> r_des[me[p]]=bd[p]; SAVED(p,E_OK)
       :: else -> norecord(me[p]); SAVED(p,E_OK)
       fi
  :: pc[p]==B_KEEP ->
       if
       :: LIVEW(me[p]) -> pc[p]=E_OK                                               /* stays reachable as what it is */
       :: !LIVEW(me[p]) && bc[p] -> r_des[me[p]]=bd[p]; SAVED(p,E_OK)
       :: !LIVEW(me[p]) && !bc[p] -> if :: M_FORGET -> norecord(me[p]) :: else -> r_ret[me[p]]=1 fi; SAVED(p,E_OK)
       fi

  /* ------------------------------------------------ power off: stop, and the first half of a restart */
  :: pc[p]==P_SAVE -> r_des[me[p]]=(vb[p]==1 && r_ph[me[p]]==3 && !r_del[me[p]]); SAVED(p,P_STOP)
  :: pc[p]==P_STOP && MAYSTOP(me[p]) -> stopvm(p,(vb[p]==2 -> E_OK : B_BEGIN))
  :: pc[p]==P_FULL -> r_ph[me[p]]=3; SAVED(p,E_OK)                                 /* an update that asks for a stopped one */

  /* ------------------------------------------------ delete, and clearing a remainder away before a create */
  :: pc[p]==D_SAVE -> if :: M_NOFLAG -> skip :: else -> r_del[me[p]]=1; r_des[me[p]]=0; r_ret[me[p]]=0; r_ph[me[p]]=3 fi; SAVED(p,D_BEGUN)
  :: pc[p]==D_STOP && MAYSTOP(me[p]) -> stopvm(p,E_OK)
  :: pc[p]==D_GONE -> norecord(me[p]); SAVED(p,D_DONE)

  /* ------------------------------------------------ release: the instance's lock is held; takes the VF's */
  :: pc[p]==R_TAKE ->
       vv[p]=(ret[p]==MARKED || ret[p]==SWEEP -> vv[p] : r_vf[me[p]]);
       if :: !VFREE(vv[p],p) -> pc[p]=R_FAIL :: else -> VTAKE(vv[p],p); pc[p]=R_LOOK fi
  :: pc[p]==R_AGAIN -> pc[p]=R_LOOK
  :: pc[p]==R_ASK ->
       if
       :: !CLAIMED(vv[p],me[p]) -> pc[p]=R_SCAN
       :: CLAIMED(vv[p],me[p]) && (LIVEW(1-me[p]) || (M_LOCKLIVE && LOCKW(1-me[p],p))) -> pc[p]=R_DROP
       :: CLAIMED(vv[p],me[p]) && !LIVEW(1-me[p]) && !(M_LOCKLIVE && LOCKW(1-me[p],p)) && (LOCKW(1-me[p],p) || yng[1-me[p]]) -> pc[p]=R_FAIL
       :: CLAIMED(vv[p],me[p]) && !LIVEW(1-me[p]) && !LOCKW(1-me[p],p) && !yng[1-me[p]] -> pc[p]=R_SCAN
       fi
  :: pc[p]==R_SCAN && !(fin!=0 && HANDLE(vv[p],p)) ->
       if
       :: HANDLE(vv[p],p) -> if :: pc[p]=R_AGAIN :: pc[p]=R_FAIL fi                /* again from the first step, or time is up */
       :: !HANDLE(vv[p],p) && !M_REREAD && !(TYPEOK(me[p],vv[p]) && MARKOK(me[p],vv[p])) -> pc[p]=R_AGAIN
       :: else -> SEE(p); pc[p]=R_W
       fi
  :: pc[p]==R_W -> WRITE(p,0,R_RB)
  :: pc[p]==R_RB ->
       if
       :: ty[vv[p]]==0 -> pc[p]=R_DROP
       :: ty[vv[p]]!=0 -> pc[p]=(M_REREAD && ty[vv[p]]==TY(me[p]) -> R_SCAN : R_AGAIN)
       :: ty[vv[p]]!=0 && fin==0 -> pc[p]=R_FAIL
       fi
  :: pc[p]==R_MARK ->
       mk[vv[p]]=0;
       assert(!P_MARK || tyr[vv[p]]==0 || tyr[vv[p]]==FOR);
       pc[p]=(M_CLAIMFIRST -> R_OK : R_SAVE)
  :: pc[p]==R_SAVE ->
       if
       :: ret[p]==MARKED || ret[p]==SWEEP -> pc[p]=(M_CLAIMFIRST -> R_MARKL : R_OK)
       :: else ->
          assert(!P_S3 || tyr[vv[p]]!=me[p]+1);
          noclaim(me[p]); SAVED(p,(M_CLAIMFIRST -> R_MARKL : R_OK))
       fi

  /* ------------------------------------------------ reconcile: settle each instance, under its lock */
  :: pc[p]==Q_I ->
       if
       :: il[me[p]]!=0 -> pc[p]=Q_NEXT                                             /* a verb works on it */
       :: else ->
          if :: M_LOOKONLY -> skip :: else -> il[me[p]]=p+1 fi;
          if
          :: LIVEW(me[p]) || r_ph[me[p]]==0 || (r_vf[me[p]]==0 && (r_ph[me[p]]==3 || r_ret[me[p]])) -> pc[p]=Q_NEXT
          :: else -> ret[p]=SETTLE; pc[p]=(r_vf[me[p]]==0 -> R_OK : R_TAKE)
          fi
       fi
  :: pc[p]==Q_RET -> r_ret[me[p]]=1; SAVED(p,Q_NEXT)                               /* what was never finished can only be deleted */
  /* then each mark whose VF its instance does not claim */
  :: pc[p]==Q_V -> if :: mk[vv[p]]==0 -> pc[p]=Q_VNEXT :: else -> me[p]=mk[vv[p]]-1; pc[p]=Q_VCHK fi
  :: pc[p]==Q_VCHK ->
       if
       :: !M_SWEEP && il[me[p]]!=0 -> pc[p]=Q_VNEXT
       :: else ->
          if :: M_SWEEP -> skip :: else -> il[me[p]]=p+1 fi;
          if
          :: r_vf[me[p]]==vv[p] && r_bt[me[p]] -> pc[p]=Q_VNEXT
          :: else -> ret[p]=SWEEP; pc[p]=R_TAKE
          fi
       fi
  /* then start what should run */
  :: pc[p]==Q_S ->
       if
       :: il[me[p]]!=0 -> pc[p]=Q_SNEXT
       :: il[me[p]]==0 && (DUE(me[p]) || (M_STARTANY && r_ph[me[p]]!=0)) && r_vf[me[p]]==0 && !LIVEW(me[p]) ->
          assert(!P_RUN || !BEGUN(me[p]));
          il[me[p]]=p+1; bc[p]=1; bd[p]=r_des[me[p]]; pc[p]=C_CHOOSE
       :: il[me[p]]==0 && ((fin==0 && !M_STARTANY) || !(DUE(me[p]) && r_vf[me[p]]==0 && !LIVEW(me[p]))) ->
          pc[p]=Q_SNEXT                                                            /* or its restart policy says no */
       fi

#if LATEW
  /* ------------------------------------------------ the child that writes */
  :: c_st[p]==1 -> c_st[p]=2
  :: c_st[p]==2 -> dowrite(vv[p],c_x[p],me[p],seen[p],er[p]); c_st[p]=3
  :: pc[p]==W1 && c_st[p]==3 -> c_st[p]=0; c_x[p]=0; pc[p]=wret[p]; wret[p]=0
  /* its deadline: the verb fails and keeps the claim, the child lives on */
  :: pc[p]==W1 && (c_st[p]==1 || c_st[p]==2) && o_st==0 && fin==0 ->
#if M_DEADLINE
       pc[p]=wret[p]; orph(p)
#else
       orph(p); pc[p]=(ret[p]!=0 -> R_FAIL : (rc[p]==1 && vv[p]!=r_vf[me[p]] -> O_DONE : B_BEGIN))
#endif
  :: CRASH && pc[p]==W1 && fin==0 && (c_st[p]==1 || c_st[p]==2) -> c_st[p]=0; c_x[p]=0; goidle(p)
  :: CRASH && pc[p]==W1 && fin==0 && (c_st[p]==1 || c_st[p]==2) && o_st==0 -> orph(p); goidle(p)
#endif
  /* ------------------------------------------------ SIGKILL at any step */
  :: CRASH && pc[p]!=IDLE && fin==0 && NOCHILD(p) ->
#if REBOOT==1
       if :: pc[p]==SYNC -> durable(me[p]) :: else fi;
#endif
#if LATEW
       c_st[p]=0; c_x[p]=0;
#endif
#if LATEU
       if
       :: pc[p]==C_STARTW && oreq[me[p]]==0 -> oreq[me[p]]=vv[p]; if :: LATEU==1 && !M_UINHERIT -> il[me[p]]=ORPH :: else fi
       :: true -> skip
       fi;
#endif
       goidle(p)
  fi;

  /* What follows at once: nobody sees it and it decides on nothing that could change meanwhile, so it is no step of its own. */
  do
  :: pc[p]==V_LOOK -> pc[p]=(vb[p]==1 -> E_LOOK : (vb[p]==2 -> P_LOOK : D_LOOK))
  :: pc[p]==E_LOOK ->
       if
       :: r_ph[me[p]]==0 -> pc[p]=E_LEFT
       :: r_ph[me[p]]!=0 && (r_ret[me[p]] || r_del[me[p]]) -> pc[p]=D_LOOK         /* a remainder: clear it away first */
       :: r_ph[me[p]]!=0 && !r_ret[me[p]] && !r_del[me[p]] ->
          bc[p]=(r_ph[me[p]]==3); bd[p]=(bc[p] && r_des[me[p]]);
          if
          :: r_ph[me[p]]>=2 -> pc[p]=P_SAVE                                        /* another spec, or another type on its VF */
          :: !(r_vf[me[p]]!=0 && r_bt[me[p]] && ty[r_vf[me[p]]]!=TY(me[p])) -> pc[p]=E_POWER
          fi
       fi
  :: pc[p]==E_POWER ->
       if
       :: LIVEW(me[p]) -> pc[p]=E_WAIT                                             /* only its identity was missing */
       :: !LIVEW(me[p]) && r_vf[me[p]]==0 -> pc[p]=C_CHOOSE
       :: !LIVEW(me[p]) && r_vf[me[p]]!=0 && r_ph[me[p]]!=3 && r_bt[me[p]] -> pc[p]=E_REUSE
       :: !LIVEW(me[p]) && r_vf[me[p]]!=0 && !(r_ph[me[p]]!=3 && r_bt[me[p]]) -> ret[p]=BEFORE_START; pc[p]=R_TAKE
       fi
#if RECLAIM
  :: pc[p]==O_DONE -> VDROP(vv[p],p); UNSEE(p); vv[p]=r_vf[me[p]]; pc[p]=C_GIVE
#endif
  :: pc[p]==E_OK -> if :: vb[p]==4 -> pc[p]=Q_SNEXT :: else -> goidle(p) fi
  :: pc[p]==C_NEXT ->
       VDROP(vv[p],p); UNSEE(p);
       if
       :: rc[p]==1 -> rc[p]=2; vv[p]=0; pc[p]=C_CHOOSE
       :: else ->
#if NV>1
          tr[p]=(tr[p] | vv[p]); vv[p]=0; pc[p]=C_CHOOSE
#else
          pc[p]=B_BEGIN
#endif
       fi
#if LATEU
  :: pc[p]==C_START -> pc[p]=C_STARTW
#endif
  :: pc[p]==B_BEGIN ->
       VDROP(vv[p],p); vv[p]=0; tr[p]=0; rc[p]=0; er[p]=0; UNSEE(p);
       if
       :: r_ph[me[p]]==0 -> pc[p]=E_OK
       :: r_ph[me[p]]!=0 && bc[p] && !(nc[p] && r_vf[me[p]]!=0) ->                 /* a finished one, no new claim: as it was */
          if
          :: r_des[me[p]]!=bd[p] && !M_DESIRED -> r_des[me[p]]=bd[p]; SAVED(p,E_OK)
          :: else -> assert(!P_DES || r_des[me[p]]==bd[p]); pc[p]=E_OK
          fi
       :: else -> pc[p]=B_STOP
       fi
  :: pc[p]==B_STOP && !LIVEW(me[p]) -> ret[p]=ROLLBACK; pc[p]=(r_vf[me[p]]==0 -> R_OK : R_TAKE)
  :: pc[p]==P_LOOK -> if :: r_ph[me[p]]==0 || r_ret[me[p]] -> goidle(p) :: else -> pc[p]=P_SAVE fi
  :: pc[p]==P_STOP && !LIVEW(me[p]) -> ret[p]=POWEROFF; pc[p]=(r_vf[me[p]]==0 -> R_OK : R_TAKE)
  :: pc[p]==P_DONE ->
       if
       :: vb[p]==1 -> pc[p]=E_POWER
       :: vb[p]==2 -> goidle(p)
       :: vb[p]==2 && r_ph[me[p]]==2 && r_vf[me[p]]==0 -> pc[p]=P_FULL
       fi
  :: pc[p]==D_LOOK -> pc[p]=(r_ph[me[p]]==0 -> D_STOP : D_SAVE)
  :: pc[p]==D_BEGUN -> ISBEGUN(me[p]); pc[p]=D_STOP
  :: pc[p]==D_STOP && !LIVEW(me[p]) -> ret[p]=DELETE; pc[p]=(r_vf[me[p]]==0 -> R_OK : R_TAKE)
  :: pc[p]==D_MARK ->
       if
       :: MYMARK(me[p]) && !M_LEFTOVERS -> vv[p]=MARKVF(me[p]); ret[p]=MARKED; pc[p]=R_TAKE
       :: else -> pc[p]=(r_ph[me[p]]==0 -> D_DONE : D_GONE)
       fi
  :: pc[p]==D_DONE ->
       assert(!P_DEL || !TYPEDBY(me[p]));
       assert(!P_DEL || !ALIVE(me[p]));
       NOTBEGUN(me[p]);
       if :: vb[p]==3 -> goidle(p) :: else -> clearlocals(p); pc[p]=E_LEFT fi
  :: pc[p]==R_LOOK ->
       if
       :: (LIVEW(me[p]) && !(M_SWEEP && ret[p]==SWEEP)) || OTHERWRITER(vv[p],p) -> pc[p]=R_FAIL
       :: else ->
          if
          :: ty[vv[p]]==0 -> pc[p]=R_DROP
          :: ty[vv[p]]!=0 && ((ret[p]!=MARKED && ret[p]!=SWEEP && !BTOK(me[p])) || !TYPEOK(me[p],vv[p]) || !MARKOK(me[p],vv[p])) ->
             pc[p]=(M_KEEPMARK -> R_SAVE : R_DROP)
          :: else -> SEE(p); pc[p]=(M_NOGUARD -> R_SCAN : R_ASK)
          fi
       fi
  :: pc[p]==R_DROP -> pc[p]=(M_CLAIMFIRST -> R_SAVE : R_MARKL)
  :: pc[p]==R_MARKL -> pc[p]=(mk[vv[p]]==me[p]+1 || (M_ANYMARK && mk[vv[p]]!=0) -> R_MARK : (M_CLAIMFIRST -> R_OK : R_SAVE))
  :: pc[p]==R_OK ->
       assert(!P_SMARK || vv[p]==0 || !(mk[vv[p]]==me[p]+1 && r_vf[me[p]]!=vv[p] && tyr[vv[p]]!=me[p]+1));
       VDROP(vv[p],p); UNSEE(p);
       vv[p]=(ret[p]==SWEEP -> vv[p] : 0);
       if
       :: ret[p]==BEFORE_START -> pc[p]=C_CHOOSE
       :: ret[p]==ROLLBACK -> pc[p]=B_DONE
       :: ret[p]==POWEROFF -> pc[p]=P_DONE
       :: ret[p]==DELETE || ret[p]==MARKED -> pc[p]=D_MARK
       :: ret[p]==SETTLE -> pc[p]=(r_ph[me[p]]!=3 && !r_ret[me[p]] -> Q_RET : Q_NEXT)
       :: ret[p]==SWEEP -> pc[p]=Q_VNEXT
       fi;
       ret[p]=0
  :: pc[p]==R_FAIL ->
       VDROP(vv[p],p); UNSEE(p);
       vv[p]=(ret[p]==SWEEP -> vv[p] : 0);
       if
       :: ret[p]==BEFORE_START -> pc[p]=B_BEGIN
       :: ret[p]==ROLLBACK -> pc[p]=B_KEEP
       :: ret[p]==POWEROFF -> pc[p]=P_DONE
       :: ret[p]==DELETE || ret[p]==MARKED -> pc[p]=E_OK
       :: ret[p]==SETTLE -> pc[p]=Q_NEXT
       :: ret[p]==SWEEP -> pc[p]=Q_VNEXT
       fi;
       ret[p]=0
  :: pc[p]==Q_NEXT ->
       if :: il[me[p]]==p+1 -> il[me[p]]=0 :: else fi;
       if
       :: me[p]==0 -> me[p]=1; pc[p]=Q_I
       :: me[p]==1 -> me[p]=0; vv[p]=1; pc[p]=Q_V
       fi
  :: pc[p]==Q_VNEXT ->
       if :: il[me[p]]==p+1 -> il[me[p]]=0 :: else fi;
       me[p]=0;
       if
       :: vv[p]<NV -> vv[p]=vv[p]+1; pc[p]=Q_V
       :: vv[p]>=NV -> vv[p]=0; pc[p]=Q_S
       fi
  :: pc[p]==Q_SNEXT ->
       if :: il[me[p]]==p+1 -> il[me[p]]=0 :: else fi;
       VDROP(vv[p],p); clearlocals(p);
       if
       :: me[p]==0 -> me[p]=1; pc[p]=Q_S
       :: me[p]==1 -> goidle(p)
       fi
  :: else -> break
  od }
  :: atomic { fin==7 && pc[p]==IDLE -> break }
  od
}

inline vmopen(k) {                      /* QEMU opens the VF, or ends because it cannot */
  if
  :: ty[vmv[k]]!=0 && !(vm[1-k]>=2 && vmv[1-k]==vmv[k]) && !fop[vmv[k]] ->
       assert(!P_OWN || LOST || r_vf[k]==vmv[k]);
       assert(!P_OWN || tyr[vmv[k]]==k+1 || tyr[vmv[k]]==FOR);
       vm[k]=2
  :: else -> vm[k]=0; vmv[k]=0
  fi
}
inline nothingleft(i) {                 /* without its VM, an instance holds nothing */
  assert(!P_L1 || r_vf[i]==0 || (vm[i]==2 && vmv[i]==r_vf[i]));
  assert(!P_L1 || LOST || vm[i]!=2 || r_vf[i]==vmv[i]);
  assert(!P_L1 || !TYPEDBY(i) || vm[i]==2);
  assert(!P_RUN || vm[i]!=2 || LOST || !r_ret[i])
}
#define BEGIN(i,verb) il[i]=1; me[0]=i; vb[0]=verb; pc[0]=V_BEGIN
#define QUIET (vm[0]!=1 && vm[1]!=1 && vm[0]!=3 && vm[1]!=3 && !fop[1] && NOORPH && (!STALE || (!yng[0] && !yng[1])))

proctype Env() {
  do
  /* ------------------------------------------------ VMs live and die on their own */
  :: atomic { vm[0]==1 -> vmopen(0) }
  :: atomic { vm[1]==1 -> vmopen(1) }
  :: atomic { vm[0]==2 && fin==0 -> vm[0]=3 }
  :: atomic { vm[1]==2 && fin==0 -> vm[1]=3 }
  :: atomic { vm[0]==3 -> vm[0]=0; vmv[0]=0 }
  :: atomic { vm[1]==3 -> vm[1]=0; vmv[1]=0 }
  /* ------------------------------------------------ time */
  :: atomic { yng[0] && (fin==1 || fin==3 || (fin==0 && (SLOW || ALLIDLE))) -> yng[0]=0 }
  :: atomic { yng[1] && (fin==1 || fin==3 || (fin==0 && (SLOW || ALLIDLE))) -> yng[1]=0 }
  /* ------------------------------------------------ children whose verb is gone */
#if LATEW
  :: atomic { o_st==1 -> o_st=2 }
  :: atomic { o_st==2 -> dowrite(o_v,o_x,o_who,o_seen,xe); xe=0;
       if :: vl[o_v]==ORPH -> vl[o_v]=0 :: else fi;
       o_st=0; o_v=0; o_x=0; o_who=0; o_seen=0 }
#endif
#if LATEU
  :: atomic { oreq[0]!=0 ->
       if :: ALIVE(0) -> skip :: else -> vm[0]=1; vmv[0]=oreq[0] fi; oreq[0]=0;
       if :: il[0]==ORPH -> il[0]=0 :: else fi }
  :: atomic { oreq[1]!=0 ->
       if :: ALIVE(1) -> skip :: else -> vm[1]=1; vmv[1]=oreq[1] fi; oreq[1]=0;
       if :: il[1]==ORPH -> il[1]=0 :: else fi }
#endif
  /* ------------------------------------------------ somebody else's tool */
#if FOREIGN
  :: atomic { fin==0 && ty[1]==0 && FORMAY -> ty[1]=FT; tyr[1]=FOR }
  :: atomic { fin==0 && ty[1]!=0 && (tyr[1]==FOR || FOREIGN==2) && !VMOPEN(1) && !fop[1] -> ty[1]=0; tyr[1]=0 }
  :: atomic { fin==0 && ty[1]!=0 && !fop[1] && !VMOPEN(1) -> fop[1]=1 }
  :: atomic { fop[1] -> fop[1]=0 }
#endif
  /* ------------------------------------------------ records put back or removed by hand */
#if STALE
  :: atomic { fin==0 && !staled && r_vf[0]==0 && il[0]==0 && !LIVEW(0) -> staled=1;
       if :: r_ph[0]=2; r_des[0]=0 :: r_ph[0]=3; r_des[0]=1 fi; r_vf[0]=1; r_bt[0]=1; r_del[0]=0; r_ret[0]=0; NOTBEGUN(0);
       if :: yng[0]=0 :: yng[0]=1 fi;
       durable(0) }
#endif
#if LOST
  :: atomic { fin==0 && !lost && r_ph[0]!=0 && il[0]==0 && NOORPHW -> lost=1; norecord(0); NOTBEGUN(0); durable(0) }
#endif
  /* ------------------------------------------------ power cut and boot */
#if REBOOT
  :: atomic { fin==0 ->
       if :: r_ph[0]=d_ph[0]; r_vf[0]=d_vf[0]; r_des[0]=d_des[0]; r_del[0]=d_del[0]; r_ret[0]=d_ret[0] :: true fi;
       if :: r_ph[1]=d_ph[1]; r_vf[1]=d_vf[1]; r_des[1]=d_des[1]; r_del[1]=d_del[1]; r_ret[1]=d_ret[1] :: true fi;
       r_bt[0]=0; r_bt[1]=0; yng[0]=0; yng[1]=0;
       durable(0); durable(1);
       ty[1]=0; tyr[1]=0; mk[1]=0; fop[1]=0; vl[1]=0;
#if NV>1
       ty[2]=0; tyr[2]=0; mk[2]=0; fop[2]=0; vl[2]=0;
#endif
       vm[0]=0; vm[1]=0; vmv[0]=0; vmv[1]=0;
#if LATEW
       c_st[0]=0; c_st[1]=0; c_x[0]=0; c_x[1]=0; o_st=0; o_v=0; o_x=0; o_who=0; o_seen=0;
#endif
#if LATEU
       oreq[0]=0; oreq[1]=0;
#endif
       il[0]=0; il[1]=0;
       goidle(0); goidle(1);
#if NP==3
       goidle(2);
#if LATEW
       c_st[2]=0; c_x[2]=0;
#endif
#endif
     }
#endif
  /* ------------------------------------------------ faults stop; a verb or not; one reconcile; then deletes */
  :: atomic { fin==0 && ALLIDLE -> fin=1 }
  :: atomic { fin==1 && QUIET -> fin=3 }
#if REPAIR
  :: atomic { fin==1 && QUIET -> fin=2;
       if :: ri=0 :: ri=1 fi;
       if :: rv=1 :: rv=2 :: rv=3 fi;
       BEGIN(ri,rv) }
  :: atomic { fin==2 && ALLIDLE ->
       if
       :: rv==2 && r_ret[ri] -> skip                       /* nothing to stop: delete it */
       :: LOST -> skip
       :: else -> nothingleft(ri)
       fi;
       assert(!P_L1 || rv==1 || (rv==2 && LOST) || vm[ri]==0 || vm[ri]==3);
       assert(!P_L1 || rv!=1 || LOST || r_ph[ri]!=2);
       assert(!P_L1 || rv!=3 || (r_ph[ri]==0 && !TYPEDBY(ri) && !MYMARK(ri)));
       ri=0; rv=0; fin=3 }
#endif
  :: atomic { fin==3 && QUIET -> fin=4; me[0]=0; vb[0]=4; pc[0]=Q_I }
  :: atomic { fin==4 && ALLIDLE ->
       nothingleft(0); nothingleft(1);
       assert(!P_RUN || !DUE(0) || vm[0]==2 || !SPARE);
       assert(!P_RUN || !DUE(1) || vm[1]==2 || !SPARE);
       fin=5; BEGIN(0,3) }
  :: atomic { fin==5 && ALLIDLE && r_ph[0]==0 -> fin=6; BEGIN(1,3) }
  :: atomic { fin==6 && ALLIDLE && r_ph[1]==0 ->
       assert(!P_L1 || (!TYPEDBY(0) && !TYPEDBY(1)));
       assert(!P_L1 || (!MYMARK(0) && !MYMARK(1)));
       fin=7 }
  :: atomic { fin==7 -> break }
  od
}

init { atomic {
  run Verb(0); run Verb(1);
#if NP==3
  run Verb(2);
#endif
  run Env() } }
