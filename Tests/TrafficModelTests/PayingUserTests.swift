import Testing
import TrafficLimits
import TrafficModel

@Suite("Who pays")
struct PayingUserTests {
    @Test(
        "ids pay for themselves below 65,536, and by blocks of 65,536 from there on",
        arguments: [
            (0, 0), (65_534, 65_534), (65_535, 65_535), (65_536, nil), (131_071, nil), (UInt32.max, nil),
        ] as [(UInt32, UInt32?)]
    )
    func own(id: UInt32, uid: UInt32?) {
        #expect(PayingUser(id).uid == uid)
    }

    @Test("the ids of a block are one payer, and those of two are not")
    func blocks() {
        #expect(PayingUser(65_536) == PayingUser(131_071) && PayingUser(131_071) != PayingUser(131_072))
        #expect(PayingUser(65_535) < PayingUser(65_536) && PayingUser(0) != PayingUser(1))
        #expect("\(PayingUser(7)), \(PayingUser(131_073))" == "user 7, users 131072 to 196607")
        #expect("\(PayingUser(.max))" == "users 4294901760 to 4294967295")
    }

    @Test("groups of a user's subordinate ids have the places of one user")
    func places() {
        var places = GroupPlaces(.init(3, inAll: 100))
        for id in 0..<3 as Range<UInt32> {
            #expect(places.hasRoom(for: 131_072 + id))
            places.take(for: 131_072 + id)
        }
        #expect(!places.hasRoom(for: 131_080) && places.hasRoom(for: 7) && places.hasRoom(for: nil))
        places.giveBack(of: 131_073)
        #expect(places.hasRoom(for: 131_080))
    }
}
