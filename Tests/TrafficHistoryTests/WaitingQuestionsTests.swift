import Testing
import TrafficLimits

@testable import TrafficHistory

@Suite("Questions that wait for history")
struct WaitingQuestionsTests {
    private typealias Questions = WaitingQuestions<String>

    private static func questions() -> Questions { Questions(most: UserLimit(3, inAll: 6), ofAdministrators: 2) }

    private static func user(_ uid: UInt32) -> Questions.Asker { .user(PayingUser(uid)) }

    private static func drained(_ questions: Questions) -> [String] {
        var (questions, all) = (questions, [String]())
        while let next = questions.takeNext() { all.append(next) }
        return all
    }

    @Test("the daemon goes first, and then askers take turns, however much one of them asks")
    func turns() {
        var questions = Self.questions()
        for number in 1...3 { #expect(questions.add("a\(number)", of: Self.user(1)).isAccepted) }
        for number in 1...2 { #expect(questions.add("b\(number)", of: Self.user(2)).isAccepted) }
        #expect(questions.add("root", of: .administrators).isAccepted)
        for number in 1...9 { #expect(questions.add("d\(number)", of: .daemon).isAccepted) }
        let order = Self.drained(questions)
        #expect(order.prefix(9) == ["d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"])
        #expect(order.dropFirst(9) == ["a1", "b1", "root", "a2", "b2", "a3"])
    }

    @Test("each asker has places of its own; where all users' are taken, the user with the most gives way")
    func places() {
        var questions = Self.questions()
        for number in 1...3 { _ = questions.add("a\(number)", of: Self.user(1)) }
        let fourth = questions.add("a4", of: Self.user(1))
        #expect(!fourth.isAccepted && fourth.gaveWay == nil)
        for number in 1...3 { #expect(questions.add("b\(number)", of: Self.user(2)).isAccepted) }
        for number in 1...2 { #expect(questions.add("r\(number)", of: .administrators).isAccepted) }
        #expect(!questions.add("r3", of: .administrators).isAccepted)
        let late = questions.add("c1", of: Self.user(3))
        #expect(late.isAccepted && ["a3", "b3"].contains(late.gaveWay))
        #expect(questions.all.count == 8)
        // With as many as the others, nobody gives way.
        #expect(questions.add("c2", of: Self.user(3)).isAccepted)
        #expect(!questions.add("c3", of: Self.user(3)).isAccepted)
        // A range of subordinate ids is one asker.
        #expect(Questions.Asker.user(PayingUser(100_000)) == .user(PayingUser(100_001)))
    }
}
