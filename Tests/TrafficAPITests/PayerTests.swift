import Testing
import TrafficModel

@testable import TrafficAPI

@Suite("Who pays for an answer")
struct PayerTests {
    private static func end(_ text: String) -> TrafficModel.SocketAddress {
        TrafficModel.SocketAddress(address: Fixture.address(text), port: 7)
    }

    @Test(
        "over TCP it is the user, or else the client's address; nobody is many payers by many addresses",
        arguments: [
            ("127.0.0.1", "127.0.0.1", 5, Payer(uid: 5)), ("127.0.0.1", "127.0.0.1", nil, .thisHost),
            ("127.9.8.7", "127.0.0.1", nil, .thisHost), ("::1", "::1", nil, .thisHost),
            ("192.0.2.1", "192.0.2.1", nil, .thisHost),
            ("192.0.2.9", "192.0.2.1", nil, .address(Fixture.address("192.0.2.9"))),
            ("2001:db8:1:2:3::4", "2001:db8::1", nil, .address(Fixture.address("2001:db8:1:2::"))),
        ] as [(String, String, UInt32?, Payer)]
    )
    func payer(peer: String, own: String, user: UInt32?, payer: Payer) {
        #expect(Payer(uid: 131_071) != Payer(uid: 131_072) && Payer(uid: 0) != Payer(uid: 1))
        #expect(Payer(peer: Self.end(peer), own: Self.end(own), user: user) == payer)
    }

    @Test(
        "whoever has a range of subordinate ids is one payer",
        arguments: [(131_071, 65_536), (131_072, 196_607)]
    )
    func range(uid: UInt32, payer: UInt32) {
        #expect(Payer(uid: uid) == Payer(uid: payer))
        #expect(Payer(uid: 131_071) != Payer(uid: 131_072) && Payer(uid: 0) != Payer(uid: 1))
        #expect(Payer(peer: Self.end("::1"), own: Self.end("::1"), user: uid) == Payer(uid: payer))
    }
}
