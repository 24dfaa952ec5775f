// Volumes that another cluster has as well.
export const mirrors = {
  "screen.mirrors": "Mirrors",
  "mirror.search": "Search mirrors",
  "mirror.about":
    "Volumes that another cluster has as well, up to a point. Each mirror is shown as this cluster's end of it is; what the other end is, is as it was seen last.",
  "mirror.first":
    "There are no mirrors. `amita mirror add NAME VOLUME...` makes one at the cluster whose volumes hosts use, and the other cluster joins it by `amita mirror join FILE`.",
  "mirror.name": "Name",
  "mirror.role": "Role",
  "mirror.primary": "primary",
  "mirror.demoting": "being demoted",
  "mirror.secondary": "secondary",
  "mirror.promoting": "being promoted",
  "mirror.deposed": "deposed",
  "mirror.handed": "{role}, handed over",
  "mirror.fact.deposed": "deposed",
  "mirror.fact.split": "split",
  "mirror.fact.stalled": "stalled",
  "mirror.fact.unheard": "unheard",
  "mirror.fact.late": "late",
  "mirror.paused": "paused",
  "mirror.alone": "nobody has joined it",
  "mirror.alone.about":
    "Nobody has joined it yet: bring the file that `amita mirror add` has made to the other cluster, and join there by `amita mirror join FILE`.",
  "mirror.brings": "brings a point",
  "mirror.lag": "Lag",
  "mirror.point": "Last point",
  "mirror.other": "Other end",
  "mirror.never_seen": "never seen",
  "mirror.seen_ago": "{role}, {ago} ago",
  "mirror.pass": "Pass under way",
  "mirror.told": "What is not as it should be",
  "mirror.ails": "Why it does not go on",
  "mirror.late_after": "Late from",
  "mirror.late_after.usual": "{time} (three intervals)",
  "mirror.late_after.seconds": "Late from so many seconds of lag on",
  "mirror.late_after.about": "Empty: from three intervals on.",
  "mirror.late_after.wrong": "That is no number of seconds: say 300, or nothing.",
  "mirror.interval": "Interval of points",
  "mirror.interval.seconds": "Interval of points in seconds",
  "mirror.keep": "Points kept beside the newest",
  "mirror.rate": "Rate limit",
  "mirror.rate.none": "none",
  "mirror.rate.most": "Read and send at most so many bytes a second (100M; empty: as many as can be)",
  "mirror.epoch": "Epoch of the right to write",
  "mirror.never_deposed": "Goes on as primary, whatever it hears",
  "mirror.cluster": "Cluster",
  "mirror.addresses": "Addresses of its API",
  "mirror.seen": "Seen last",
  "mirror.pass.all": "Point {point}, cut at {time}: all of it is read.",
  "mirror.pass.from": "Point {point}, cut at {time}: what differs from point {base} is read.",
  "mirror.pass.written": "{size} brought",
  "mirror.pass.whole": "whole",
  "mirror.pass.volume": "Progress of {name}",
  "mirror.volumes.about":
    "As both ends call them; one that was renamed here is found by its new name. Hosts use the volumes of a primary, and of no other end.",
  "mirror.points": "Points",
  "mirror.points.about":
    "Each is all of the volumes at one moment. A clone of its snapshots shows what it holds, while passes go on.",
  "mirror.points.snapshots": "VOLUME@{name}",
  "mirror.begun": "It is begun, and goes on by itself; this page shows how far it is.",
  "mirror.set.title": "Change mirror {name}",
  "mirror.set.about": "It holds at this end alone, at once: for a pass that is under way, too.",
  "mirror.pause": "Pause",
  "mirror.pause.title": "Pause mirror {name}",
  "mirror.pause.about":
    "At this end it stands still until it goes on: a secondary brings nothing, a primary cuts no points. What is lost with a site grows meanwhile.",
  "mirror.resume": "Resume",
  "mirror.resume.title": "Resume mirror {name}",
  "mirror.resume.about": "It goes on where it was.",
  "mirror.demote": "Demote",
  "mirror.demote.title": "Demote {name} here",
  "mirror.demote.about":
    "From then on hosts are refused here, and the last point is cut. The other end can be promoted when it has that, and nothing that was acknowledged is lost. It is refused while hosts use a volume, or may use it by NVMe or iSCSI.",
  "mirror.demote.force": "Also while hosts use its volumes",
  "mirror.demote.force.about":
    "They get errors that are final: what they have not written yet is lost to them. What was acknowledged is in the last point.",
  "mirror.promote": "Promote",
  "mirror.promote.title": "Promote {name} here",
  "mirror.promote.back":
    "This end was demoted, and takes that back. The other end has to have declined the demotion before: `amita mirror promote` asks it to, the call does not.",
  "mirror.promote.unseen": "The other end was never seen: it is refused until that is demoted, and was heard.",
  "mirror.promote.not_handed":
    "The other end is {role}, and not demoted: it is refused until it is. Demote it there, and nothing is lost.",
  "mirror.promote.waits":
    "The other end is demoted, and its last point {point} is not brought yet: it is refused until it is.",
  "mirror.promote.ready":
    "The other end is demoted, and this one has its last point {point}: nothing is lost. Hosts are let in here.",
  "mirror.force": "Promote by force",
  "mirror.force.title": "Promote {name} here by force",
  "mirror.force.since":
    "It is promoted at point {point}, which was cut at {time} (lag: {lag}). What the other end has acknowledged since is lost.",
  "mirror.force.all":
    "This end is at no point: it is promoted as it was before anything was brought. All that the other end has is lost here.",
  "mirror.force.other":
    "This end keeps what it has, and deposes the other one: what was written there since the split is given up when that is resynced.",
  "mirror.force.seen": "The other end was {role}, {ago} ago.",
  "mirror.force.unseen": "The other end was never seen.",
  "mirror.force.about":
    "It may go on being written by those who reach it until it hears of this: keep hosts from it. Where it answers and is primary this is refused: demote it instead. What is written there meanwhile is kept there until you say what becomes of it.",
  "mirror.resync": "Resync",
  "mirror.resync.title": "Have {name} follow the other end",
  "mirror.resync.about":
    "This end goes back to the newest point that both have, and follows from there. What was written here since that point is given up: what the volumes are now is kept as snapshots, until you delete them.",
  "mirror.resync.dry": "Where would it go back to?",
  "mirror.resync.dry.about": "Nothing is changed: it is said which point it would go back to.",
  "mirror.resync.dry.done": "Nothing was changed.",
  "mirror.resync.common": "The newest point that both ends have is {point}, cut at {time}.",
  "mirror.resync.none":
    "There is no point that both ends have: all of it is brought, and this end cannot be promoted before.",
  "mirror.remove": "Remove",
  "mirror.remove.title": "Remove mirror {name}",
  "mirror.remove.about":
    "Its volumes ({volumes}) go on here, and are brought to the other end no more. Its points become snapshots like others, which nothing protects, and the other end's token is good for nothing. The other end stays as it is, closed to hosts, until it is removed there.",
  "mirror.leave.about":
    "An end that is no primary is removed by the command, which says what is lost and asks for the name. The other end goes on without this one.",
  "mirror.leave.as_written": "Opened, its volumes are as they were written here since the split.",
  "mirror.leave.point": "Opened, its volumes are what point {point} is, beside those of the other end.",
  "mirror.leave.parts":
    "It never arrived at a point. Opened, its volumes hold whatever was brought so far, which may be nothing, or of no one moment.",
  "mirror.leave.begun":
    "A pass was begun since point {point}, and the volumes are of no one moment: to open them promote it by force first, which goes back to the point, and remove it then.",
  "mirror.leave.open": "Its volumes are opened to hosts, and stay",
  "mirror.leave.delete": "Its volumes are deleted for good, with all of their snapshots",
};
