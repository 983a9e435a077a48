import TrafficLimits
import TrafficModel

/// Which contacts history knows, and which it has to be asked about. History is asked about each once a day, and so
/// knows when it was seen last.
struct ContactBook {
    /// What a contact has moved while nobody knows whether it is new.
    struct Waiting {
        var bytes: UInt64 = 0
        /// The beginning of the first sample with this contact, and its end.
        var since: Timestamp
        var seen: Timestamp
        /// The end of the last sample.
        var until: Timestamp
    }

    /// What a sample says of a contact.
    typealias Moved = [Contact: UInt64]

    private var waiting: [Contact: Waiting] = [:]
    private var known: Set<Contact> = []
    /// Of both.
    private var places = GroupPlaces(Contact.learned)
    private var day: Int64 = .min
    private var now = Timestamp(nanosecondsSinceEpoch: 0)
    /// Contacts that were not judged, for want of room.
    private var lost: UInt64 = 0

    /// So many at once: minutes and other questions wait for one question at most, and must not wait long.
    private static let mostAtOnce = 100

    /// - Parameter isAsked: Whether a rule is about the contact.
    mutating func add(_ moved: Moved, of sample: AlertSample, isAsked: (Contact) -> Bool) {
        self.lost +|= sample.contacts.lost
        self.now = sample.takenAt
        self.begin(day: self.now.nanosecondsSinceEpoch / 86_400_000_000_000)
        let first = Waiting(since: sample.beganAt, seen: self.now, until: self.now)
        for (contact, bytes) in moved where !self.known.contains(contact) {
            if self.waiting[contact] == nil {
                guard isAsked(contact) else { continue }
                guard self.places.hasRoom(for: contact.process.uid) else {
                    self.lost +|= 1
                    continue
                }
                self.places.take(for: contact.process.uid)
            }
            self.waiting[contact, default: first].bytes +|= bytes
        }
    }

    private mutating func begin(day: Int64) {
        guard day != self.day else { return }
        (self.day, self.known, self.places) = (day, [], GroupPlaces(Contact.learned))
        for contact in self.waiting.keys { self.places.take(for: contact.process.uid) }
    }

    /// What to ask history about next. Until it answers, the same is asked again.
    var question: [Contact] { Array(self.waiting.keys.prefix(Self.mostAtOnce)) }

    /// - Returns: What the contact has moved meanwhile, and the time of its group's first contact, if the contact is new.
    mutating func take(_ answer: ContactAnswer, of contact: Contact) -> (moved: Waiting, groupSince: Timestamp)? {
        guard var moved = self.waiting.removeValue(forKey: contact) else { return nil }
        moved.until = self.now
        self.known.insert(contact)
        switch answer {
        case .known: return nil
        case .new(let since): return (moved, since)
        case .noRoom:
            self.lost +|= 1
            return nil
        }
    }

    mutating func takeLost() -> UInt64 {
        defer { self.lost = 0 }
        return self.lost
    }
}

extension AlertSample {
    var beganAt: Timestamp {
        Timestamp(nanosecondsSinceEpoch: self.takenAt.nanosecondsSinceEpoch -| Int64(self.seconds * 1e9))
    }

    /// Whom processes have reached: the networks that sockets tell, and the hosts that clients report. What is on this
    /// host is no destination.
    var destinations: ContactBook.Moved {
        var moved = self.contacts.bytes
        for (endpoint, counts) in self.endpoints where endpoint.role == .client {
            let host = endpoint.host
            guard host != EndpointUsage.other, host != "localhost", InternetAddress(host)?.isLoopback != true else {
                continue
            }
            moved[Contact(process: endpoint.process, destination: host), default: 0] +|= counts.messageBytes
        }
        return moved
    }
}
